//! Products of an operand that is computed from bytes, such as quantized weights: the operand is decoded into
//! a panel of some columns at a time, so that it is never an array in memory.
//!
//! ```text
//! for c, m, i { before; for k { acc := fma(a(m,k), decoded(q(c,k,i)), acc) }; after }
//! = for c {
//!     for k, i { panel[k,i] := decoded(q(c,k,i)) }
//!     for m, i { before; for k { acc := fma(a(m,k), panel[k,i], acc) }; after }
//!   }
//! ```
//!
//! The columns are the loops that the operand mentions beside those over `k`: `i`, along which the outputs
//! are contiguous, is the width of a panel, and `c` counts panels. The second nest is a contraction, which
//! the codegen may compile whole. A panel belongs to one iteration of `c`, so threads that share these
//! iterations have panels of their own.
//!
//! A product of one row is a reduction. It decodes each element once anyway, in registers. A product of a few
//! rows does so too, in a tile that has all of them ([`tile_contraction`]): a panel would be stored and
//! loaded for few products. Each output adds the same products in the same order, so no bit changes.
//!
//! [`tile_contraction`]: super::tile_contraction

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, Space, Stmt, Types, walk};
use tnode::{DType, Dims};

use crate::analysis::access;
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::reduction::multiply_add;
use crate::common::unroll_and_jam::{self, Strip};
use crate::cpu::contract_arrays::window_limit;
use crate::cpu::tile_contraction::decodes_in_registers;
use codegen_core::Caps;
use codegen_core::dependence::{self, mentions};

/// The nest with panels of its decoded operand, whose columns are along `lane`, in strips of `lanes`; `None`
/// if it is no product of such an operand.
pub(crate) fn decode_operand(
    nest: &Nest,
    lane: &Loop,
    lanes: i64,
    caps: &Caps,
    names: &mut Names,
) -> Option<Block> {
    let product = DecodedProduct::of(nest, lane, caps, names)?;
    let extents = || product.ks.iter().chain([lane]).map(Loop::extent);
    let dims: Dims = extents().map(|extent| Some(extent? as usize)).collect::<Option<_>>()?;
    let dtype = product.decoded.dtype(names);
    let elements = dims.iter().copied().fold(1, usize::saturating_mul);
    if elements.saturating_mul(dtype.size_bytes()) > window_limit(caps) {
        return None;
    }
    let (panel, declare) = names.declare(dtype, dims, Space::Scratch);
    let index: Indices = product.ks.iter().chain([lane]).map(|l| Affine::var(l.var)).collect();
    let set = Stmt::SetLocal { local: panel, index: index.clone(), value: product.decoded.clone() };
    let strip = Strip { lanes, kind: LoopKind::Vector };
    let strips = unroll_and_jam::strips(lane.var, lane.extent()?, &[set], strip, names);
    let fill = names.refreshed(&nest::wrap(&product.ks, strips));
    let mut body = nest.body.clone();
    let read = Expr::GetLocal { local: panel, index };
    walk::map_parts(&mut body, &mut |part| if part == product.decoded { read.clone() } else { part });
    let (panels, rows): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().filter(|l| *l != lane).cloned().partition(|l| mentions(&product.decoded, l.var));
    let rows: Vec<Loop> = rows.into_iter().chain([lane.clone()]).collect();
    let block: Block = [declare].into_iter().chain(fill).chain(nest::wrap(&rows, body)).collect();
    Some(nest::wrap(&panels, block))
}

/// A nest whose body sums products of an operand that is computed from bytes, for more than a few rows.
struct DecodedProduct {
    /// The loops over `k`.
    ks: Vec<Loop>,
    decoded: Expr,
}

impl DecodedProduct {
    fn of(nest: &Nest, lane: &Loop, caps: &Caps, names: &Names) -> Option<DecodedProduct> {
        let mut inner = nest.body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. }));
        let (only, None) = (inner.next()?, inner.next()) else { return None };
        let Nest { loops: ks, body } = Nest::of(only)?;
        let [Stmt::SetLocal { value, .. }] = body.as_slice() else { return None };
        let (a, b, _, _) = multiply_add(value)?;
        let decoded = [a, b].into_iter().find(|operand| is_decoded(operand, names))?;
        let other = if decoded == a { b } else { a };
        let is_row = |l: &Loop| l != lane && mentions(other, l.var) && !mentions(decoded, l.var);
        let rows: Vec<Loop> = nest.movable(names).into_iter().filter(is_row).collect();
        let is_few = |rows: i64| decodes_in_registers(decoded, rows, caps, names);
        let has_rows = match rows.as_slice() {
            [rows] => !rows.extent().is_some_and(is_few),
            rows => !rows.is_empty(),
        };
        let has_lanes = mentions(decoded, lane.var) && !mentions(other, lane.var);
        let is_fixed = reads_only(decoded, &nest.body);
        (has_rows && has_lanes && is_fixed).then(|| DecodedProduct { ks, decoded: decoded.clone() })
    }
}

/// Whether an operand is a float that is computed from bytes of a node, and more than an element.
pub(crate) fn is_decoded(operand: &Expr, names: &Names) -> bool {
    let is_byte = |part: &Expr| match part {
        Expr::Get { node, .. } => matches!(Types::node(names, *node), DType::U8 | DType::I8),
        _ => false,
    };
    let is_computed = |part: &Expr| matches!(part, Expr::Binary { .. } | Expr::Ternary { .. });
    operand.dtype(names).is_float()
        && walk::parts(operand).any(is_byte)
        && walk::parts(operand).any(is_computed)
}

/// Whether an operand reads nodes that the body does not write, and no locals.
fn reads_only(operand: &Expr, body: &[Stmt]) -> bool {
    let reads_local = walk::parts(operand).any(|part| matches!(part, Expr::GetLocal { .. }));
    let read = [Stmt::set_scalar(LocalId(0), operand.clone())];
    !reads_local && access::nodes(&read).is_disjoint(&dependence::written(body))
}
