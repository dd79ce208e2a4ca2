//! Padded copies of the operands of convolutions.
//!
//! ```text
//! for o, i { for c, p { acc += x[c, i + p - 1] if 0 <= i + p - 1 < n else 0 · f[o, c, p] }; … }
//! =
//! for c, j { t[c, j] := x[c, j - 1] if 0 <= j - 1 < n else 0 }
//! for o, i { for c, p { acc += t[c, i + p] · f[o, c, p] }; … }
//! ```
//!
//! A convolution reads each element of its operand once for each tap and each output channel. Without bounds,
//! matrix kernels can read the operand in place, element by element, as the operand of the rows: the bounds
//! are checked once for each element instead of each time, and nothing is packed. The values and their order
//! stay the same, so no bit changes.
//!
//! The operand of the columns gets a copy if kernels exchange the operands: if there are few rows, or if the
//! other operand is contiguous along the rows, as in the gradient of filters of images with the channels
//! last. Otherwise it is packed in vectors, for which bounds cost little.

use lowered_ir::ir::{
    Affine, Block, Expr, Guard, Indices, LoweredRoutine, NodeDecl, NodeRef, Range, Stmt, walk,
};
use tnode::{Dims, MemoryMode, ModeState, Reason};

use crate::analysis::access::Effects;
use crate::analysis::names::Names;
use codegen_core::Caps;
use codegen_core::canonical::{Contraction, adds_products, read_of};
use codegen_core::dependence;

/// The least number of products for each element of a copy. Fewer do not make up for the copy.
const MIN_PRODUCTS: i64 = 16;

/// The most columns for which kernels read the operand of the rows in place.
const MAX_COLUMNS: i64 = 256;

/// The most rows that are few.
const FEW_ROWS: i64 = 16;

/// Lets contractions with bounded operands read padded copies, where that pays.
pub(crate) fn pad_operands(routine: &mut LoweredRoutine, caps: &Caps) {
    if caps.contractions.is_empty() || !adds_products(&routine.body) || dependence::logs(&routine.body) {
        return;
    }
    let mut names = Names::of(routine);
    for mut stmt in std::mem::take(&mut routine.body) {
        let constant = names.contraction(&stmt).filter(|contraction| contraction.dynamic.is_empty());
        let copies = match constant {
            Some(contraction) => copies(&contraction, &mut stmt, routine, &mut names),
            None => Block::new(),
        };
        routine.body.extend(copies);
        routine.body.push(stmt);
    }
}

/// The nests that copy the operands of a contraction, which reads the copies afterwards.
fn copies(
    contraction: &Contraction,
    stmt: &mut Stmt,
    routine: &mut LoweredRoutine,
    names: &mut Names,
) -> Block {
    let mut nests = Block::new();
    let operands = [
        (&contraction.left, contraction.num_columns() <= MAX_COLUMNS),
        (&contraction.right, exchanges_operands(contraction, names)),
    ];
    for operand in operands.into_iter().filter_map(|(operand, is_in_place)| is_in_place.then_some(operand)) {
        if let Some(copy) = PaddedCopy::of(operand, contraction, stmt, names) {
            let source = &routine.nodes[copy.node.index()];
            let node = names.node_of(source.dtype, copy.dims.clone());
            let mode = ModeState::decided(MemoryMode::Local, Reason::new("a padded copy"));
            let name = format!("{}.padded", source.name);
            routine.nodes.push(NodeDecl { name, dtype: source.dtype, dims: copy.dims.clone(), mode });
            nests.push(copy.nest(node, names));
            copy.replace_reads(node, stmt);
        }
    }
    nests
}

/// Whether kernels read the operand of the columns in place of the operand of the rows.
fn exchanges_operands(contraction: &Contraction, names: &Names) -> bool {
    let has_contiguous_rows = || match (read_of(&contraction.left), contraction.rows.last()) {
        (Expr::Get { node, index }, Some(row)) if node.index() < names.num_nodes() => {
            names.position(*node, index).coefficient(row.var) == 1
        }
        _ => false,
    };
    contraction.num_rows() <= FEW_ROWS || has_contiguous_rows()
}

/// A copy of a node with zeros around the elements of some axes.
struct PaddedCopy {
    node: NodeRef,
    /// The read that the copy replaces.
    read: Expr,
    /// The index of the read in the copy.
    index: Indices,
    dims: Dims,
    axes: Vec<CopiedAxis>,
}

/// An axis of a copy.
#[derive(Clone, Copy, Default)]
struct CopiedAxis {
    /// The index of the copy's first element in the node.
    first: i64,
    /// The indices of the elements that exist, if some do not: the first, and the end.
    bounds: Option<(i64, i64)>,
}

impl PaddedCopy {
    /// The copy for an operand; none if its bounds are not those of its own axes, or if it does not pay.
    fn of(operand: &Expr, contraction: &Contraction, stmt: &Stmt, names: &Names) -> Option<PaddedCopy> {
        let Expr::GetGuarded { guard, node, index, otherwise } = operand else { return None };
        let is_zero = matches!(&**otherwise, Expr::Const(x) if x.bits() == 0);
        if !is_zero || Effects::of(std::slice::from_ref(stmt)).written.contains(node) {
            return None;
        }
        let mut copy = PaddedCopy {
            node: *node,
            read: operand.clone(),
            index: index.clone(),
            dims: names.dims(*node).clone(),
            axes: vec![CopiedAxis::default(); index.len()],
        };
        for range in guard {
            copy.pad(range, names)?;
        }
        let elements =
            copy.dims.iter().try_fold(1i64, |all, &dim| all.checked_mul(i64::try_from(dim).ok()?))?;
        (elements.checked_mul(MIN_PRODUCTS)? <= products(contraction)?).then_some(copy)
    }

    /// Pads the axis that a range bounds.
    fn pad(&mut self, range: &Range, names: &Names) -> Option<()> {
        let axis = (self.axes.iter().zip(&self.index))
            .position(|(axis, index)| axis.bounds.is_none() && *index == range.index)?;
        let (least, greatest) = range.index.bounds(|var| names.ranges.get(var))?;
        self.axes[axis] = CopiedAxis { first: least, bounds: Some((range.lo, range.hi)) };
        self.index[axis] = self.index[axis].plus_constant(least.checked_neg()?);
        self.dims[axis] = usize::try_from(greatest.checked_sub(least)?.checked_add(1)?).ok()?;
        Some(())
    }

    /// The nest that fills the copy.
    fn nest(&self, copy: NodeRef, names: &mut Names) -> Stmt {
        let loops: Vec<_> = self.dims.iter().map(|_| names.loop_id()).collect();
        let index: Indices = loops.iter().map(|&var| Affine::var(var)).collect();
        let there = index.iter().zip(&self.axes).map(|(at, axis)| at.plus_constant(axis.first));
        let there: Indices = there.collect();
        let exists = there
            .iter()
            .zip(&self.axes)
            .filter_map(|(at, axis)| axis.bounds.map(|(lo, hi)| Range { index: at.clone(), lo, hi }));
        let guard: Guard = exists.collect();
        let Expr::GetGuarded { otherwise, .. } = &self.read else { unreachable!("a copy has bounds") };
        let value = Expr::GetGuarded { guard, node: self.node, index: there, otherwise: otherwise.clone() };
        let store = Stmt::Set { node: copy, index, value };
        let nest = loops.iter().zip(&self.dims).rev();
        nest.fold(store, |body, (&var, &dim)| Stmt::serial(var, dim as i64, vec![body]))
    }

    fn replace_reads(&self, copy: NodeRef, stmt: &mut Stmt) {
        let Stmt::For { body, .. } = stmt else { return };
        walk::map_parts(body, &mut |e| match e {
            read if read == self.read => Expr::Get { node: copy, index: self.index.clone() },
            other => other,
        });
    }
}

/// The products of a contraction for all outputs together.
fn products(contraction: &Contraction) -> Option<i64> {
    let batch = contraction.batch.iter().try_fold(1i64, |all, axis| all.checked_mul(axis.extent))?;
    [contraction.num_rows(), contraction.num_columns(), contraction.num_products()]
        .into_iter()
        .try_fold(batch, i64::checked_mul)
}
