//! Short rows: loops that are shorter than a vector are unrolled, and the loop over rows becomes the lanes.
//!
//! ```text
//! for i in 0..n {
//!   acc := 0; for j in 0..3 { acc := acc + x[i, j] }
//!   for j in 0..3 { y[i, j] := x[i, j] / acc }
//! }
//! =
//! for s in 0..n/8 { for i of s vector { acc := 0; acc := acc + x[i, 0]; … y[i, 0] := x[i, 0] / acc; … } }
//! ```
//!
//! A lane then strides through memory, but the unrolled statements access its neighbors, so a code generator
//! can load and store whole rows and transpose them in registers. Rows are independent, and each runs its
//! statements in order, so no bit changes.
//!
//! A loop around the rows along which everything is contiguous is better for lanes. Without such a loop, the
//! short ones are unrolled if they reduce rows, whose sums would otherwise be computed element by element, or
//! if no contiguous loop has as many iterations as a vector has lanes. Contractions stay as they are.

use lowered_ir::eval;
use lowered_ir::ir::{Affine, Block, Expr, LoopId, LoopKind, LoweredRoutine, Stmt, TernaryOp, Types, walk};
use tnode::Scalar;

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use crate::common::unroll_and_jam::{self, Strip};
use crate::cpu::fusible_contractions::has_contraction;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::dependence;

/// The most iterations of an unrolled loop: fewer than a row that has partial results of its own.
const SHORT: i64 = 31;
/// The least number of rows, in vectors.
const VECTORS: i64 = 4;
/// The most statements of a row.
const STATEMENTS: i64 = 96;
/// The most parts of all expressions of a row.
const EXPRESSIONS: i64 = 768;
/// The vectors in which code generators transpose rows.
const VECTOR_BYTES: usize = 32;

/// Unrolls the short rows of a routine, if the options and the target allow it.
pub(crate) fn unroll_short_rows(routine: &mut LoweredRoutine, caps: &Caps, options: &ScheduleOptions) {
    if options.vectorize && caps.vector_bytes == VECTOR_BYTES {
        let mut names = Names::of(routine);
        let body = std::mem::take(&mut routine.body);
        routine.body = body.into_iter().flat_map(|stmt| unroll_nest(stmt, caps, &mut names)).collect();
    }
}

/// The position of the loop over short rows in a nest, counted from outside. None if the nest stays as it is.
pub(crate) fn row_loop(stmt: &Stmt, caps: &Caps, names: &Names) -> Option<usize> {
    let rows = if caps.vector_bytes == VECTOR_BYTES { Rows::of(stmt, caps, names) } else { None };
    rows.map(|rows| rows.outer.len())
}

fn unroll_nest(stmt: Stmt, caps: &Caps, names: &mut Names) -> Block {
    let Some(Rows { outer, row, body, lanes }) = Rows::of(&stmt, caps, names) else { return vec![stmt] };
    let unrolled = unrolled(&body, names);
    names.note(&unrolled);
    let strip = Strip { lanes, kind: LoopKind::Vector };
    let strips = unroll_and_jam::strips(row.var, row.hi.limit, &unrolled, strip, names);
    nest::wrap(&outer, strips)
}

/// A loop over rows.
struct Rows {
    outer: Vec<Loop>,
    row: Loop,
    body: Block,
    /// Rows of a strip: the lanes of one vector, because the unrolled statements hide each other's latency.
    lanes: i64,
}

impl Rows {
    fn of(stmt: &Stmt, caps: &Caps, names: &Names) -> Option<Rows> {
        let (mut loops, _) = nest::loops_and_body(stmt);
        let at = loops.iter().rposition(|l| l.extent().is_some_and(|extent| extent > SHORT))?;
        let body = body_at(stmt, at)?;
        loops.truncate(at + 1);
        let (row, outer) = (loops.pop()?, loops);
        let size = Size::of(body)?;
        let width = nest::vector_width(body, row.var, names)?;
        let lanes = (caps.vector_bytes / width) as i64;
        let fits = size.statements <= STATEMENTS && size.expressions <= EXPRESSIONS;
        let has_rows = row.extent()? >= VECTORS * lanes && strides(body, row.var, names)?;
        let pays = reduces(body) || longest_contiguous(body, names) < lanes;
        let legal = dependence::independent(row.var, body, &names.ranges);
        let has_lanes = outer.iter().any(|l| l.hi.limit >= lanes && is_contiguous(body, l.var, names));
        let plain = fits && has_rows && pays && legal && !has_lanes && !has_contraction(stmt);
        plain.then(|| Rows { outer, row, body: body.clone(), lanes })
    }
}

/// The body of a loop of a nest, by the number of loops around it.
fn body_at(stmt: &Stmt, at: usize) -> Option<&Block> {
    let Stmt::For { body, .. } = stmt else { return None };
    if at == 0 { Some(body) } else { body_at(body.first()?, at - 1) }
}

/// The size of a block whose loops are unrolled.
#[derive(Clone, Copy, Default)]
struct Size {
    statements: i64,
    expressions: i64,
}

impl Size {
    /// `None` if a loop is not short, or if there is no loop, or if a statement is not elementwise.
    fn of(block: &[Stmt]) -> Option<Size> {
        let has_loops = block.iter().any(|stmt| matches!(stmt, Stmt::For { .. }));
        if has_loops { Size::of_block(block) } else { None }
    }

    fn of_block(block: &[Stmt]) -> Option<Size> {
        let mut size = Size::default();
        for stmt in block {
            let (own, count) = match stmt {
                Stmt::For { lo: 0, hi, kind: LoopKind::Serial, body, .. } => {
                    let extent = hi.constant().filter(|extent| (1..=SHORT).contains(extent))?;
                    (Size::of_block(body)?, extent)
                }
                Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } => (Size::of_value(value), 1),
                Stmt::Declare { dims, .. } if dims.is_empty() => continue,
                Stmt::Comment(_) => continue,
                _ => return None,
            };
            size.statements += own.statements * count;
            size.expressions += own.expressions * count;
        }
        Some(size)
    }

    fn of_value(value: &Expr) -> Size {
        Size { statements: 1, expressions: walk::parts(value).count() as i64 }
    }
}

/// Whether some access strides along the rows. `None` if an access is guarded or computed, or strides over
/// elements that are too narrow to be transposed.
fn strides(body: &[Stmt], row: LoopId, names: &Names) -> Option<bool> {
    let mut found = false;
    let mut plain = true;
    let mut note = |node, index: &[Affine]| {
        let strided = !matches!(names.position(node, index).coefficient(row), 0 | 1);
        found |= strided;
        plain &= !strided || names.node(node).size_bytes() >= 4;
    };
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            note(*node, index);
        }
    });
    let mut other = false;
    walk::parts_in(body).for_each(|e| match e {
        Expr::Get { node, index } => note(*node, index),
        Expr::GetGuarded { .. } | Expr::GetDynamic { .. } | Expr::GetMerge { .. } | Expr::Lanes(_) => {
            other = true;
        }
        _ => {}
    });
    (plain && !other).then_some(found)
}

/// Whether the stores of a body are contiguous along a loop, and no access strides along it. The loop is the
/// better one for lanes then, and the short rows inside stay loops.
fn is_contiguous(body: &[Stmt], var: LoopId, names: &Names) -> bool {
    let is_stored = |stmt: &Stmt| match stmt {
        Stmt::Set { node, index, .. } => names.position(*node, index).coefficient(var) == 1,
        _ => true,
    };
    walk::stmts(body).all(is_stored) && strides(body, var, names) == Some(false)
}

/// Whether a loop of the block accumulates into a local.
fn reduces(block: &[Stmt]) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::For { body, .. } => {
            let (own, set) = (dependence::declared(body), dependence::locals_set(body));
            !set.is_subset(&own) || reduces(body)
        }
        _ => false,
    })
}

/// The greatest number of iterations of a loop along which a store is contiguous.
fn longest_contiguous(body: &[Stmt], names: &Names) -> i64 {
    let mut longest = 0;
    walk::stmts(body).for_each(|stmt| {
        let Stmt::For { var, hi, body, .. } = stmt else { return };
        walk::stmts(body).for_each(|stmt| {
            if let Stmt::Set { node, index, .. } = stmt
                && names.position(*node, index).coefficient(*var) == 1
            {
                longest = longest.max(hi.limit);
            }
        });
    });
    longest
}

/// The block with all its loops unrolled.
fn unrolled(block: &[Stmt], names: &mut Names) -> Block {
    let mut out = Block::new();
    for stmt in block {
        let Stmt::For { var, hi, body, .. } = stmt else {
            out.push(stmt.clone());
            continue;
        };
        for at in 0..hi.limit {
            let mut iteration = names.refreshed(body);
            walk::substitute(&mut iteration, *var, &Affine::constant(at));
            walk::map_parts(&mut iteration, &mut fold);
            out.extend(unrolled(&iteration, names));
        }
    }
    out
}

/// Evaluates an operation whose operands are constants since the loop was unrolled.
fn fold(e: Expr) -> Expr {
    let constant = |e: &Expr| match e {
        Expr::Const(scalar) => Some(*scalar),
        _ => None,
    };
    match &e {
        Expr::Index { index, dtype } => match index.as_constant() {
            Some(at) => Expr::Const(Scalar::from_i64(*dtype, at)),
            None => e,
        },
        Expr::Convert { to, arg } => match constant(arg) {
            Some(x) => Expr::Const(x.convert(*to)),
            None => e,
        },
        Expr::Binary { op, a, b } => match (constant(a), constant(b)) {
            (Some(a), Some(b)) => Expr::Const(eval::binary(*op, a, b)),
            _ => e,
        },
        Expr::Ternary { op: TernaryOp::Where, a, b, c } => match constant(a) {
            Some(condition) => if condition.as_bool() { b } else { c }.as_ref().clone(),
            None => e,
        },
        _ => e,
    }
}
