//! Strips of a loop that ends at symbols.
//!
//! ```text
//! for i in 0..min(64, @n) { body(i) }
//! =
//! for s in 0..min(4, @q) { for l in 0..16 { body(16·s + l) } }              with @q = @n / 16
//! for s in 0..min(3, @p - 4·@q) { for l in 0..4 { body(16·@q + 4·s + l) } }  with @p = @n / 4
//! for r in 0..min(3, @n - 4·@p) { body(4·@p + r) }
//! ```
//!
//! The inner loop of a strip has a constant end, so it becomes lanes like any other. The iterations are
//! independent, so no bit changes.

use lowered_ir::ir::{Affine, Block, Bound, LoopKind, Stmt, walk};

use crate::analysis::clipped_bounds::is_in_bounds;
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};

/// Cuts a loop of a nest into strips, inside of the other loops. `widths` are the iterations of strips of
/// each kind, each a multiple of the next. Returns `None` if the loop's end is constant or depends on loops
/// around the nest, if the loop has fewer iterations than a strip, in kernels, whose symbols are settled,
/// and if the verifier could not prove that indices are in bounds: it takes a quotient for any number of
/// its range.
pub(crate) fn strip_dynamic(nest: &Nest, lane: &Loop, widths: &[i64], names: &mut Names) -> Option<Block> {
    let end = lane.dynamic_end().filter(|end| names.may_divide(end))?;
    let limit = names.range(end)?.1.min(lane.hi.limit);
    let widths = &widths[widths.iter().position(|&width| width <= limit)?..];
    let symbols = names.symbols.len();
    let strips = strips(nest, lane, (end, limit), widths, names);
    if is_in_bounds(&strips, names) {
        return Some(strips);
    }
    names.forget_symbols(symbols);
    None
}

fn strips(
    nest: &Nest,
    lane: &Loop,
    (end, limit): (&Affine, i64),
    widths: &[i64],
    names: &mut Names,
) -> Block {
    let mut parts = Block::new();
    // The iterations before the strips of a kind, and a number that the remaining iterations are below.
    let (mut done, mut least) = (Affine::constant(0), limit + 1);
    for &width in widths {
        let all = names.quotient(end, width, limit / width);
        let before = done.terms().first().map(|&(var, step)| Affine::term(var, -step / width));
        let count = Affine::var(all).plus(&before.unwrap_or_default());
        let (strip, lane_var) = (names.loop_id(), names.loop_id());
        let to = done.plus(&Affine::term(strip, width)).plus(&Affine::var(lane_var));
        let strips = Bound::from((least - 1) / width).clipped(count);
        let body = moved(nest, lane, &to, &parts, names);
        parts
            .push(clipped(Loop { var: strip, lo: 0, hi: strips }, vec![Stmt::serial(lane_var, width, body)]));
        (done, least) = (Affine::term(all, width), width);
    }
    let left = |end: Affine| end.plus(&done.times(-1));
    let mut rest = Bound::from(least - 1).clipped(left(end.clone()));
    if names.range(end).is_none_or(|(_, greatest)| greatest > limit) {
        rest = rest.clipped(left(limit.into()));
    }
    let var = names.loop_id();
    let body = moved(nest, lane, &done.plus(&Affine::var(var)), &parts, names);
    parts.push(clipped(Loop { var, lo: 0, hi: rest }, body));

    let others: Vec<Loop> = nest.loops.iter().filter(|l| *l != lane).cloned().collect();
    let block = nest::wrap(&others, parts);
    names.note(&block);
    block
}

/// The body at another index; with names of its own behind other copies.
fn moved(nest: &Nest, lane: &Loop, to: &Affine, others: &[Stmt], names: &mut Names) -> Block {
    let mut body = if others.is_empty() { nest.body.clone() } else { names.refreshed(&nest.body) };
    walk::substitute(&mut body, lane.var, to);
    body
}

fn clipped(Loop { var, lo, hi }: Loop, body: Block) -> Stmt {
    Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }
}
