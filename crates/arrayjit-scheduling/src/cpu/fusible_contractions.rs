//! Contractions that fusion must not break: `for …, m, n { before; for k … { acc := fma(a, b, acc) }; after
//! }`, where `a` depends on a loop that `b` does not depend on, and the other way round.
//!
//! `before` computes locals only, and the body contains no other loop. Fusion must leave such a nest all of
//! its loops, and keep the canonical form that codegens compile whole ([`codegen_core::canonical`]).

use std::collections::BTreeMap;

use lowered_ir::ir::{Expr, LocalId, LoopId, Space, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest;
use crate::analysis::reduction::multiply_add;
use crate::analysis::rename::Renaming;
use codegen_core::dependence::mentions;

/// The properties of a contraction that fusion keeps.
#[derive(Clone, Copy, PartialEq)]
struct ContractionShape {
    /// The number of loops that only one operand depends on, for each operand.
    loops: (usize, usize),
    /// Whether it is in canonical form.
    canonical: bool,
}

/// The contractions of a statement, by their accumulators.
#[derive(Clone, Default)]
pub(crate) struct ContractionShapes(BTreeMap<LocalId, ContractionShape>);

impl ContractionShapes {
    /// A nest that is a contraction from its outermost loop on.
    pub(crate) fn of_nest(stmt: &Stmt, names: &Names) -> Option<ContractionShapes> {
        let (loops, body) = nest::chain(stmt);
        let (acc, loops) = contraction(&loops, body)?;
        let canonical = names.contraction(stmt).is_some();
        Some(ContractionShapes(BTreeMap::from([(acc, ContractionShape { loops, canonical })])))
    }

    /// The contractions of several statements.
    pub(crate) fn union<'a>(shapes: impl Iterator<Item = &'a ContractionShapes>) -> ContractionShapes {
        ContractionShapes(shapes.flat_map(|shapes| &shapes.0).map(|(acc, shape)| (*acc, *shape)).collect())
    }

    /// The contractions under other names.
    pub(crate) fn renamed(&self, names: &mut impl Renaming) -> ContractionShapes {
        ContractionShapes(self.0.iter().map(|(acc, shape)| (names.local(*acc), *shape)).collect())
    }

    /// Whether the statement contains no contraction.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each contraction of two statements has the same shape in this statement, which is fused from
    /// them.
    pub(crate) fn keep(&self, first: &ContractionShapes, second: &ContractionShapes) -> bool {
        let only_first = first.0.iter().filter(|(acc, _)| !second.0.contains_key(acc));
        only_first.chain(&second.0).all(|(acc, shape)| self.0.get(acc) == Some(shape))
    }
}

/// Whether a statement contains a contraction.
pub(crate) fn has_contraction(stmt: &Stmt) -> bool {
    let (loops, body) = nest::chain(stmt);
    !loops.is_empty() && (contraction(&loops, body).is_some() || body.iter().any(has_contraction))
}

/// Whether a nest is a contraction that would lose its outermost loop if that became one with the outermost
/// loop of another nest, because the other nest does not have all of its loops.
pub(crate) fn loses_loop(stmt: &Stmt, other: &Stmt) -> bool {
    let ((loops, body), (others, _)) = (nest::loops_and_body(stmt), nest::loops_and_body(other));
    let are_shared = || loops.len() <= others.len() && loops.iter().zip(&others).all(|(a, b)| a.hi == b.hi);
    let Some((_, a, b)) = product(body) else { return false };
    loops.first().is_some_and(|outer| mentions(a, outer.var) != mentions(b, outer.var)) && !are_shared()
}

/// The accumulator of a nest that is a contraction, and the number of loops that only one operand depends on.
fn contraction(loops: &[LoopId], body: &[Stmt]) -> Option<(LocalId, (usize, usize))> {
    let (acc, a, b) = product(body)?;
    let alone = |x: &Expr, y: &Expr| loops.iter().filter(|&&v| mentions(x, v) && !mentions(y, v)).count();
    let shape = (alone(a, b), alone(b, a));
    (shape.0 > 0 && shape.1 > 0).then_some((acc, shape))
}

/// The accumulator and the operands of the one loop in the body of a contraction.
fn product(body: &[Stmt]) -> Option<(LocalId, &Expr, &Expr)> {
    let mut inner = body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
    let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
    let [Stmt::SetLocal { local: acc, index, value }] = nest::chain(only).1 else { return None };
    let (a, b, c, _) = multiply_add(value)?;
    let computes = |stmt: &Stmt| match stmt {
        Stmt::Declare { space, .. } => *space == Space::Register,
        Stmt::SetLocal { .. } | Stmt::Comment(_) => true,
        _ => false,
    };
    let is_one = index.is_empty() && *c == Expr::local(*acc) && body[..at].iter().all(computes);
    is_one.then_some((*acc, a, b))
}
