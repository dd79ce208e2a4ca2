//! Contractions in the form that tiles are made from: `for …, m, n { before; for k … { acc := fma(a, b, acc) }; after }`, where `a`
//! moves with a loop that `b` does not move with, and the other way round.
//!
//! `before` computes locals alone, and nothing else in the body is a loop. Fusion must not take a loop away from such a nest, nor the
//! form that a target's kernels take ([`Contraction`]).

use std::collections::BTreeMap;

use lowered_ir::ir::{Expr, LocalId, LoopId, LoopKind, Space, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest;
use crate::cpu::contraction::multiply_add;
use codegen_core::access::mentions;

/// What matters of a contraction.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    /// How many loops move one operand alone, and how many the other.
    loops: (usize, usize),
    /// Whether it is in canonical form.
    canonical: bool,
}

/// Whether each contraction of two statements has the same shape in the one they are fused to.
pub(crate) fn keeps(first: &Stmt, second: &Stmt, fused: &Stmt, names: &Names) -> bool {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    collect(std::slice::from_ref(first), names, &mut before);
    collect(std::slice::from_ref(second), names, &mut before);
    if before.is_empty() {
        return true;
    }
    collect(std::slice::from_ref(fused), names, &mut after);
    before.iter().all(|(acc, shape)| after.get(acc) == Some(shape))
}

/// Notes the contractions of a block, by their accumulators.
fn collect(block: &[Stmt], names: &Names, found: &mut BTreeMap<LocalId, Shape>) {
    for stmt in block.iter().filter(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Serial, .. })) {
        let (loops, body) = nest::chain(stmt);
        match contraction(&loops, body) {
            Some((acc, loops)) => {
                let canonical = names.contraction(stmt).is_some();
                found.insert(acc, Shape { loops, canonical });
            }
            None => collect(body, names, found),
        }
    }
}

/// The accumulator of a nest that is a contraction, and how many loops move each operand alone.
fn contraction(loops: &[LoopId], body: &[Stmt]) -> Option<(LocalId, (usize, usize))> {
    let mut inner = body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
    let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
    let [Stmt::SetLocal { local: acc, index, value }] = nest::chain(only).1 else { return None };
    let (a, b, c, _) = multiply_add(value)?;
    let computes = |stmt: &Stmt| match stmt {
        Stmt::Declare { space, .. } => *space == Space::Register,
        Stmt::SetLocal { .. } | Stmt::Comment(_) => true,
        _ => false,
    };
    let alone = |x: &Expr, y: &Expr| loops.iter().filter(|&&v| mentions(x, v) && !mentions(y, v)).count();
    let shape = (alone(a, b), alone(b, a));
    let is_one = index.is_empty() && *c == Expr::local(*acc) && shape.0 > 0 && shape.1 > 0;
    (is_one && body[..at].iter().all(computes)).then_some((*acc, shape))
}
