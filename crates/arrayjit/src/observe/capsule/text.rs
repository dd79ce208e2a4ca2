//! The text of a capsule: a `.lir` test file with the inputs of one run.
//!
//! The run line has the inputs as bits, so that reading them back gives the same values. Its expectations are
//! the results of the definition, which interprets the routine.

use std::fmt::Write as _;

use lowered_ir::{
    interp::{self, Memory},
    ir::{LoweredRoutine, NodeRef, Numerics},
    text,
};
use tnode::{DType, Scalar};

use super::compilation::CapsuleCompilation;

/// A run to be written.
pub(super) struct CapsuleText<'a> {
    /// The routine as it was before the optimizer.
    pub(super) routine: &'a LoweredRoutine,
    /// The bytes of every node before the run, in the routine's order.
    pub(super) inputs: Vec<Vec<u8>>,
    /// The node that the routine reads from the merge buffer, and the bytes of the merge buffer.
    pub(super) merge: Option<(NodeRef, Vec<u8>)>,
    pub(super) bindings: &'a [i64],
    /// Name of the backend, and why the run is written.
    pub(super) reason: String,
    /// How the backend compiled the routine.
    pub(super) compilation: &'a CapsuleCompilation,
    /// The results: the node, its bytes, and the bytes that a correct backend computes, if they are known.
    pub(super) results: Vec<(NodeRef, Vec<u8>, Option<Vec<u8>>)>,
}

impl CapsuleText<'_> {
    /// The text of the file.
    pub(super) fn print(&self) -> String {
        let CapsuleText { routine, bindings, reason, compilation, .. } = self;
        let mut text = format!("test run\n{}\n", text::print(routine).trim_end());
        let mut inputs: Vec<String> = self.elements(&self.inputs).collect();
        if let Some((node, bytes)) = &self.merge {
            inputs.push(format!("merge {node} = {}", elements(routine.node(*node).dtype, bytes)));
        }
        let symbols = routine.symbols.iter().zip(*bindings);
        inputs.extend(symbols.map(|(symbol, value)| format!("@{} = {value}", symbol.name)));
        let tolerance = if routine.numerics == Numerics::Fast { " approx 1e-3" } else { "" };
        let expected = self.expected().join(", ");
        let _ = writeln!(text, "; run: {} => {expected}{tolerance}", inputs.join(", "));
        let _ = writeln!(text, "; capsule: {reason}");
        text += &compilation.to_string();
        for (node, found, expected) in &self.results {
            let of = |bytes: &[u8]| format!("{:#018x}", digest(routine.node(*node).dtype, bytes));
            let expected = expected.as_ref().map_or_else(|| of(found), |expected| of(expected));
            let _ = writeln!(text, "; digest: {node} = {expected}, found {}", of(found));
        }
        text
    }

    /// The results of the definition, for the nodes that the run wrote. If the definition fails, the results
    /// of the run take their place.
    fn expected(&self) -> Vec<String> {
        let mut memory =
            Memory { nodes: self.inputs.clone(), merge: self.merge.as_ref().map(|(_, bytes)| bytes.clone()) };
        let ran = interp::run(self.routine, &mut memory, self.bindings);
        if ran.is_err() {
            for (node, found, _) in &self.results {
                memory.nodes[node.index()].clone_from(found);
            }
        }
        let written = |node: NodeRef| self.results.iter().any(|(result, ..)| *result == node);
        let lines = self.routine.node_refs().zip(self.elements(&memory.nodes));
        lines.filter(|((node, _), _)| written(*node)).map(|(_, line)| line).collect()
    }

    /// `NODE = ELEMENTS` for each node.
    fn elements<'t>(&'t self, nodes: &'t [Vec<u8>]) -> impl Iterator<Item = String> + 't {
        let named = self.routine.node_refs().zip(nodes);
        named.map(|((node, decl), bytes)| format!("{node} = {}", elements(decl.dtype, bytes)))
    }
}

/// The elements as a run line has them: the bits of each, or of the one that all are.
fn elements(dtype: DType, bytes: &[u8]) -> String {
    let all: Vec<&[u8]> = bytes.chunks_exact(dtype.size_bytes()).collect();
    let one = |bytes: &[u8]| match Scalar::read(dtype, bytes) {
        // The bits of a truth value are its name.
        Some(value) if dtype == DType::Bool => value.to_string(),
        Some(value) => format!("{:#x}", value.bits()),
        None => String::new(),
    };
    match all.split_first() {
        Some((first, rest)) if !rest.is_empty() && rest.iter().all(|other| other == first) => {
            format!("fill({})", one(first))
        }
        _ => format!("[{}]", all.into_iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// A number that two arrays share if their elements have the same bits, and hardly ever otherwise: 64-bit
/// FNV-1a of the little-endian elements, where every NaN counts as the same one.
///
/// Capsules contain it for each result; a replay compares with it.
pub fn digest(dtype: DType, bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let element = |hash: u64, bytes: &[u8]| match Scalar::read(dtype, bytes) {
        Some(value) if dtype.is_float() && value.as_f64().is_nan() => b"nan".iter().fold(hash, fnv),
        _ => bytes.iter().fold(hash, fnv),
    };
    bytes.chunks_exact(dtype.size_bytes()).fold(0xcbf2_9ce4_8422_2325, element)
}
