//! Loops over the edges and the interior of guarded reads of narrow elements, and over the parts of a
//! concatenation.
//!
//! ```text
//! for i in 0..n { y[i] := x[i - 1] if 1 <= i < n - 1 else 0 }
//! =
//! y[0] := 0; for i in 1..n - 1 { y[i] := x[i - 1] }; y[n - 1] := 0
//! ```
//!
//! Vectors of words are loaded under a mask. Narrower elements have no such instruction, so that each would
//! be loaded under a test of its own. A concatenation is a choice by position, `where(i < 32, …, …)`, which
//! has no vectors. The iterations keep their order, so no bit changes.

use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, LoopId, LoopKind, Range, Stmt, TernaryOp, Types, walk};
use tnode::DType;

use crate::analysis::names::Names;
use crate::analysis::nest::{Loop, Nest};

/// Less than any index.
const FAR_BELOW: i64 = i64::MIN / 4;
/// The most parts of a nest.
const PARTS: usize = 12;

/// Splits a nest into parts, so that most guards hold everywhere in a part or nowhere. Returns `None` if the
/// nest has no guarded reads of narrow elements, or too many edges.
pub(crate) fn split_guards(nest: &Nest, names: &mut Names) -> Option<Block> {
    let mut guards: Vec<Range> = Vec::new();
    walk::parts_in(&nest.body).for_each(|e| match e {
        Expr::GetGuarded { guard, node, .. } if names.node(*node).size_bytes() < DType::F32.size_bytes() => {
            guards.extend(guard.iter().cloned());
        }
        Expr::Ternary { op: TernaryOp::Where, a, .. } => guards.extend(half_line(a, names)),
        _ => {}
    });
    let is_simple = |stmt: &Stmt| match stmt {
        Stmt::Set { .. } | Stmt::Comment(_) => true,
        Stmt::SetLocal { index, .. } => !index.is_empty(),
        _ => false,
    };
    let is_simple = nest.body.iter().all(is_simple);
    let cuts: Vec<Vec<i64>> = nest.loops.iter().map(|l| cuts(l, &guards)).collect();
    let parts = cuts.iter().fold(1usize, |parts, cuts| parts.saturating_mul(cuts.len() + 1));
    if !is_simple || parts == 1 || parts > PARTS {
        return None;
    }
    Some(split(&nest.loops, &cuts, nest.body.clone(), names))
}

/// A comparison of an index with a number, or of two indices that differ by a number and one variable, as the
/// range of an index in which it holds.
fn half_line(condition: &Expr, names: &Names) -> Option<Range> {
    let Expr::Binary { op, a, b } = condition else { return None };
    let end = match op {
        BinaryOp::Lt => 0,
        BinaryOp::Le => 1,
        _ => return None,
    };
    let index = |e: &Expr| {
        let (index, dtype) = match e {
            Expr::Index { index, dtype } => (index.clone(), *dtype),
            Expr::Const(number) => (Affine::constant(number.as_i64()), number.dtype()),
            _ => return None,
        };
        // Others wrap, or are rounded.
        let is_exact = matches!(dtype, DType::I32 | DType::I64);
        let (least, most) = index.bounds(|var| names.ranges.get(var)).filter(|_| is_exact)?;
        (i64::from(i32::MIN) <= least && most <= i64::from(i32::MAX)).then_some(index)
    };
    let difference = index(a)?.plus(&index(b)?.times(-1));
    match difference.terms() {
        [(_, 1)] => Some(Range { index: difference, lo: FAR_BELOW, hi: end }),
        [(_, -1)] => Some(Range { index: difference.times(-1), lo: 1 - end, hi: -FAR_BELOW }),
        _ => None,
    }
}

/// The iterations of a loop at which a guard that depends on this loop alone begins or ceases to hold.
fn cuts(l: &Loop, guards: &[Range]) -> Vec<i64> {
    let Some(extent) = l.extent() else { return Vec::new() };
    let own = |range: &&Range| range.index.terms() == [(l.var.into(), 1)];
    let ends = guards
        .iter()
        .filter(own)
        .flat_map(|range| [range.lo, range.hi].map(|end| end - range.index.offset()));
    let mut cuts: Vec<i64> = ends.filter(|cut| (1..extent).contains(cut)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn split(loops: &[Loop], cuts: &[Vec<i64>], body: Block, names: &mut Names) -> Block {
    let (Some((outer, inner)), Some((at, cuts))) = (loops.split_first(), cuts.split_first()) else {
        return body.into_iter().map(|stmt| settle(stmt, names)).collect();
    };
    let Some(extent) = outer.extent().filter(|_| !at.is_empty()) else {
        let body = split(inner, cuts, body, names);
        let (var, lo, hi) = (outer.var, outer.lo, outer.hi.clone());
        return vec![Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }];
    };
    let starts = std::iter::once(0).chain(at.iter().copied());
    let ends = at.iter().copied().chain([extent]);
    let parts: Vec<(i64, i64)> = starts.zip(ends).collect();
    parts.into_iter().map(|(start, end)| part(outer.var, start..end, inner, cuts, &body, names)).collect()
}

/// The iterations of a loop in `range`, as a loop from 0.
fn part(
    var: LoopId,
    range: std::ops::Range<i64>,
    inner: &[Loop],
    cuts: &[Vec<i64>],
    body: &[Stmt],
    names: &mut Names,
) -> Stmt {
    let own = names.loop_id();
    names.note(&[Stmt::serial(own, range.end - range.start, Vec::new())]);
    let fresh: Vec<Loop> = inner.iter().map(|l| Loop { var: names.loop_id(), ..l.clone() }).collect();
    let mut body = body.to_vec();
    walk::substitute(&mut body, var, &Affine::var(own).plus_constant(range.start));
    for (l, new) in inner.iter().zip(&fresh) {
        names.note(&[Stmt::For {
            var: new.var,
            lo: new.lo,
            hi: new.hi.clone(),
            kind: LoopKind::Serial,
            body: Vec::new(),
        }]);
        walk::substitute(&mut body, l.var, &Affine::var(new.var));
    }
    Stmt::serial(own, range.end - range.start, split(&fresh, cuts, body, names))
}

/// Removes the guards that always hold, reads whose guards never hold, and choices whose condition is known.
fn settle(mut stmt: Stmt, names: &Names) -> Stmt {
    let bounds = |range: &Range| range.index.bounds(|var| names.ranges.get(var));
    let never =
        |range: &Range| bounds(range).is_some_and(|(least, most)| most < range.lo || range.hi <= least);
    let always =
        |range: &Range| bounds(range).is_some_and(|(least, most)| range.lo <= least && most < range.hi);
    walk::map_own_parts(&mut stmt, &mut |e| match e {
        Expr::Ternary { op: TernaryOp::Where, a, b, c } => match half_line(&a, names) {
            Some(range) if always(&range) => *b,
            Some(range) if never(&range) => *c,
            _ => Expr::ternary(TernaryOp::Where, *a, *b, *c),
        },
        Expr::GetGuarded { mut guard, node, index, otherwise } => {
            if guard.iter().any(never) {
                return *otherwise;
            }
            guard.retain(|range| !always(range));
            if guard.is_empty() {
                return Expr::Get { node, index };
            }
            Expr::GetGuarded { guard, node, index, otherwise }
        }
        other => other,
    });
    stmt
}
