//! Random memory for a routine, and the comparison of two memories.

use lowered_ir::interp::Memory;
use lowered_ir::ir::{Expr, LoweredRoutine, NodeDecl, NodeRef, Symbol, walk};
use tnode::{DType, MemoryMode, Scalar};

use super::Choices;

/// Special values of arithmetic, and some ordinary ones.
const VALUES: [f64; 20] = {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    [
        0.0, 1.0, -1.0, 2.0, -0.0, 0.5, -2.5, 3.0, 7.0, 100.0, -100.0, 0.1, 1e-3, 1e30, -1e30, 1e-40, INF,
        -INF, NAN, 255.0,
    ]
};

/// Contents for every node of the routine. Nodes that live for one run hold zeros.
pub fn memory_from_bytes(routine: &LoweredRoutine, bytes: &[u8]) -> Memory {
    let mut choices = Choices::new(bytes);
    let mut memory = Memory::zeroed(routine);
    let nodes = memory.nodes.iter_mut().zip(&routine.nodes);
    for (contents, decl) in nodes.filter(|(_, decl)| decl.mode.mode() != Some(MemoryMode::Local)) {
        fill(&mut choices, decl, contents);
    }
    if let Some(node) = merged(routine) {
        let mut contents = memory.nodes[node.index()].clone();
        fill(&mut choices, routine.node(node), &mut contents);
        memory.merge = Some(contents);
    }
    memory
}

/// The node whose merge buffer the routine reads.
pub(crate) fn merged(routine: &LoweredRoutine) -> Option<NodeRef> {
    let mut found = None;
    for e in walk::parts_in(&routine.body) {
        if let Expr::GetMerge { node, .. } = e {
            found = Some(*node);
        }
    }
    found
}

fn fill(choices: &mut Choices<'_>, decl: &NodeDecl, contents: &mut [u8]) {
    for element in contents.chunks_exact_mut(decl.dtype.size_bytes()) {
        let _fits = value(choices, decl.dtype).write(element);
    }
}

fn value(choices: &mut Choices<'_>, dtype: DType) -> Scalar {
    if dtype == DType::U32x4 {
        return Scalar::new(dtype, u128::from_le_bytes([0; 16].map(|_| choices.byte())));
    }
    let value = *choices.pick(&VALUES) + f64::from(choices.below(3) as u8);
    Scalar::from_f64(dtype, value)
}

/// A value for every symbol of the routine.
pub fn bindings_from_bytes(routine: &LoweredRoutine, bytes: &[u8]) -> Vec<i64> {
    let mut choices = Choices::new(bytes);
    Symbol::parameters(&routine.symbols)
        .iter()
        .map(|s| choices.below(s.range.clamp(1, 256) as usize) as i64)
        .collect()
}

/// Whether two contents of the node are equal; all NaNs are.
pub fn alike(decl: &NodeDecl, a: &[u8], b: &[u8]) -> bool {
    let size = decl.dtype.size_bytes();
    let same = |(x, y): (&[u8], &[u8])| x == y || (is_nan(decl, x) && is_nan(decl, y));
    a.len() == b.len() && a.chunks(size).zip(b.chunks(size)).all(same)
}

fn is_nan(decl: &NodeDecl, element: &[u8]) -> bool {
    decl.dtype.is_float() && Scalar::read(decl.dtype, element).is_some_and(|x| x.as_f64().is_nan())
}
