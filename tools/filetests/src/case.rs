//! A routine with inputs and expected outputs.

use std::path::{Path, PathBuf};

use lowered_ir::{
    interp::{InterpError, Memory},
    ir::{LoweredRoutine, NodeRef, Numerics, Symbol},
};
use tnode::{DType, MemoryMode, Scalar};

use crate::{
    File,
    generate::{bindings_from_bytes, memory_from_bytes, merged},
    run_line::{self, RunLine},
    values,
};

/// One run of a routine: a `; run:` line of the corpus.
#[derive(Clone, Debug)]
pub struct RunCase {
    /// The test file.
    pub path: PathBuf,
    /// The line of the file, counted from 1.
    pub line: usize,
    /// The routine to run.
    pub routine: LoweredRoutine,
    /// The bytes of every node before the run, in the routine's order.
    pub inputs: Vec<Vec<u8>>,
    /// The contents of the merge buffer.
    pub merge: Option<Vec<u8>>,
    /// The values of the symbols, in order.
    pub bindings: Vec<i64>,
    /// The expected contents of some nodes after the run.
    pub expected: Vec<Expected>,
}

/// The expected contents of a node after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The position of the node in the routine.
    pub node: NodeRef,
    /// The expected bytes.
    pub bytes: Vec<u8>,
    /// The tolerance for floats, relative to the greater of 1 and the expected magnitude; 0 requires the same
    /// bits.
    pub tolerance: f64,
}

impl RunCase {
    /// A run on this memory, without expectations.
    pub fn of(routine: LoweredRoutine, memory: Memory, bindings: Vec<i64>) -> RunCase {
        let Memory { nodes: inputs, merge } = memory;
        let (path, expected) = ("generated".into(), Vec::new());
        RunCase { path, line: 0, routine, inputs, merge, bindings, expected }
    }

    /// A run on memory and bindings that the bytes describe: special and ordinary values.
    pub fn drawn(routine: LoweredRoutine, bytes: &[u8]) -> RunCase {
        let bindings = bindings_from_bytes(&routine, bytes);
        let memory = memory_from_bytes(&routine, bytes);
        RunCase::of(routine, memory, bindings)
    }

    /// A run on the numbers that `value` gives for the position of a node and of an element in it. Nodes that
    /// live for one run hold zeros.
    pub fn filled(
        routine: LoweredRoutine,
        bindings: Vec<i64>,
        value: impl Fn(usize, usize) -> f64,
    ) -> RunCase {
        let mut memory = Memory::zeroed(&routine);
        for (node, (bytes, decl)) in memory.nodes.iter_mut().zip(&routine.nodes).enumerate() {
            if decl.mode.mode() == Some(MemoryMode::Local) {
                continue;
            }
            for (at, element) in bytes.chunks_exact_mut(decl.dtype.size_bytes()).enumerate() {
                let _fits = Scalar::from_f64(decl.dtype, value(node, at)).write(element);
            }
        }
        RunCase::of(routine, memory, bindings)
    }

    /// A run on zeros.
    pub(crate) fn zeroed(routine: &LoweredRoutine, path: &Path, line: usize) -> RunCase {
        let bindings = vec![0; Symbol::parameters(&routine.symbols).len()];
        let case = RunCase::of(routine.clone(), Memory::zeroed(routine), bindings);
        RunCase { path: path.to_owned(), line, ..case }
    }

    /// The runs of a test file's text that are expected to succeed.
    ///
    /// # Errors
    ///
    /// The first routine or run line that does not parse.
    pub fn parse_all(path: impl Into<PathBuf>, text: &str) -> Result<Vec<RunCase>, String> {
        let file = File::new(path, text);
        let mut cases = Vec::new();
        for chunk in file.chunks() {
            let parsed = chunk.parse().map_err(|error| error.to_string())?;
            for (line, text) in chunk.annotations("run") {
                if let RunLine::Runs(case) = run_line::parse(text, &parsed.routine, &file.path, line)? {
                    cases.push(case);
                }
            }
        }
        Ok(cases)
    }

    /// The run as a test file that [`RunCase::parse_all`] reads back. Its expectations are the interpreter's
    /// results, within 1 ‰ in class `Fast`.
    pub fn to_lir(&self) -> String {
        let named = |nodes: &[Vec<u8>]| -> Vec<String> {
            let named = self.routine.node_refs().zip(nodes);
            named
                .map(|((node, decl), bytes)| format!("{node} = {}", values::print(bytes, decl.dtype)))
                .collect()
        };
        let mut inputs = named(&self.inputs);
        if let Some((merge, node)) = self.merge.as_ref().zip(merged(&self.routine)) {
            let dtype = self.routine.node(node).dtype;
            inputs.push(format!("merge {node} = {}", values::print(merge, dtype)));
        }
        let symbols = self.routine.symbols.iter().zip(&self.bindings);
        inputs.extend(symbols.map(|(symbol, value)| format!("@{} = {value}", symbol.name)));
        let outputs = named(&self.interpret().unwrap_or_else(|_| self.inputs.clone()));
        let tolerance = if self.routine.numerics == Numerics::Fast { " approx 1e-3" } else { "" };
        let routine = lowered_ir::text::print(&self.routine);
        format!(
            "test run\n{}\n; run: {} => {}{tolerance}\n",
            routine.trim_end(),
            inputs.join(", "),
            outputs.join(", ")
        )
    }

    /// Interprets the routine and returns the bytes of its nodes.
    ///
    /// # Errors
    ///
    /// An error of the interpreter.
    pub fn interpret(&self) -> Result<Vec<Vec<u8>>, InterpError> {
        let mut memory = Memory { nodes: self.inputs.clone(), merge: self.merge.clone() };
        lowered_ir::interp::run(&self.routine, &mut memory, &self.bindings)?;
        Ok(memory.nodes)
    }

    /// The elements of each node, one line for each node, in the syntax of run lines.
    pub fn print(&self, nodes: &[Vec<u8>]) -> impl Iterator<Item = String> {
        let named = self.routine.node_refs().zip(nodes);
        named.map(|((node, decl), bytes)| {
            format!("{node} = {} ; {:?}", values::print(bytes, decl.dtype), decl.name)
        })
    }

    /// Compares the bytes of the nodes after a run with the expectations.
    ///
    /// # Errors
    ///
    /// The first node that differs, with both contents.
    pub fn check(&self, nodes: &[Vec<u8>]) -> Result<(), String> {
        self.expected.iter().try_for_each(|expected| {
            let decl = self.routine.node(expected.node);
            let found = nodes.get(expected.node.index()).map_or(&[][..], Vec::as_slice);
            if agree(found, &expected.bytes, decl.dtype, expected.tolerance) {
                return Ok(());
            }
            let print = |bytes| values::print(bytes, decl.dtype);
            let (node, name) = (expected.node, &decl.name);
            Err(format!(
                "{}:{}: node {node} {name:?} is\n  {}\nexpected\n  {}",
                self.path.display(),
                self.line,
                print(found),
                print(&expected.bytes),
            ))
        })
    }
}

fn agree(found: &[u8], expected: &[u8], dtype: DType, tolerance: f64) -> bool {
    let both = values::scalars(found, dtype).zip(values::scalars(expected, dtype));
    found.len() == expected.len() && both.into_iter().all(|(a, b)| close(a, b, tolerance))
}

fn close(found: Scalar, expected: Scalar, tolerance: f64) -> bool {
    let (a, b) = (found.as_f64(), expected.as_f64());
    let float = found.dtype().is_float();
    found == expected
        || float && a.is_nan() && b.is_nan()
        || float && tolerance > 0.0 && (a - b).abs() <= tolerance * b.abs().max(1.0)
}
