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
//! Where loops of the contraction end at sizes, so do those of the copy: it has a margin behind the size of
//! the run, and the elements behind that margin are neither written nor read.
//!
//! The operand of the columns gets a copy if kernels exchange the operands: if there are few rows, or if the
//! other operand is contiguous along the rows, as in the gradient of filters of images with the channels
//! last. Otherwise it is packed in vectors, for which bounds cost little.

use lowered_ir::ir::{
    Affine, Block, Bound, Expr, Guard, Indices, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Range, Stmt,
    Var, walk,
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
        let copies = match names.contraction(&stmt) {
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
        (Expr::Get { node, index }, Some(row)) if names.is_node(*node) => {
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
#[derive(Clone, Default)]
struct CopiedAxis {
    /// The index of the copy's first element in the node.
    first: i64,
    /// The conditions under which an element exists: ranges of its index plus a sum of symbols.
    bounds: Vec<Range>,
    /// The end of the elements that are read, if symbols decide it.
    end: Option<Affine>,
}

impl PaddedCopy {
    /// The copy for an operand; none if its bounds are not those of its own axes, or if it does not pay.
    fn of(operand: &Expr, contraction: &Contraction, stmt: &Stmt, names: &Names) -> Option<PaddedCopy> {
        let Expr::GetGuarded { guard, node, index, otherwise } = operand else { return None };
        let is_zero = matches!(&**otherwise, Expr::Const(x) if x.bits() == 0);
        if !is_zero || Effects::of(std::slice::from_ref(stmt)).written.contains(node) {
            return None;
        }
        let axis = |index| CopiedAxis { end: end(index, contraction), ..CopiedAxis::default() };
        let mut copy = PaddedCopy {
            node: *node,
            read: operand.clone(),
            index: index.clone(),
            dims: names.dims(*node).clone(),
            axes: index.iter().map(axis).collect(),
        };
        for range in guard {
            let more = |index: &Affine| range.index.plus(&index.times(-1));
            let axis = index.iter().position(|index| is_of_symbols(&more(index)))?;
            copy.axes[axis].bounds.push(Range { index: more(&index[axis]), ..range.clone() });
        }
        (0..index.len()).try_for_each(|axis| copy.pad(axis, names))?;
        let elements =
            copy.dims.iter().try_fold(1i64, |all, &dim| all.checked_mul(i64::try_from(dim).ok()?))?;
        (elements.checked_mul(MIN_PRODUCTS)? <= products(contraction)?).then_some(copy)
    }

    /// Gives an axis that has bounds the elements that the contraction reads, and no others.
    fn pad(&mut self, axis: usize, names: &Names) -> Option<()> {
        if self.axes[axis].bounds.is_empty() {
            return Some(());
        }
        let (least, greatest) = self.index[axis].bounds(|var| names.ranges.get(var))?;
        self.axes[axis].first = least;
        self.index[axis] = self.index[axis].plus_constant(least.checked_neg()?);
        self.dims[axis] = usize::try_from(greatest.checked_sub(least)?.checked_add(1)?).ok()?;
        Some(())
    }

    /// The nest that fills the copy.
    fn nest(&self, copy: NodeRef, names: &mut Names) -> Stmt {
        let loops: Vec<_> = self.dims.iter().map(|_| names.loop_id()).collect();
        let index: Indices = loops.iter().map(|&var| Affine::var(var)).collect();
        let there: Indices =
            index.iter().zip(&self.axes).map(|(at, axis)| at.plus_constant(axis.first)).collect();
        let exists = there.iter().zip(&self.axes).flat_map(|(at, axis)| {
            axis.bounds.iter().map(|bound| Range { index: at.plus(&bound.index), ..bound.clone() })
        });
        let guard: Guard = exists.collect();
        let Expr::GetGuarded { otherwise, .. } = &self.read else { unreachable!("a copy has bounds") };
        let value = Expr::GetGuarded { guard, node: self.node, index: there, otherwise: otherwise.clone() };
        let store = Stmt::Set { node: copy, index, value };
        let end = |(axis, &dim): (&CopiedAxis, &usize)| match &axis.end {
            Some(end) => Bound::from(dim as i64).clipped(end.plus_constant(-axis.first)),
            None => Bound::from(dim as i64),
        };
        let nest = loops.iter().zip(self.axes.iter().zip(&self.dims).map(end)).rev();
        nest.fold(store, |body, (&var, hi)| Stmt::For {
            var,
            lo: 0,
            hi,
            kind: LoopKind::Serial,
            body: vec![body],
        })
    }

    fn replace_reads(&self, copy: NodeRef, stmt: &mut Stmt) {
        let Stmt::For { body, .. } = stmt else { return };
        walk::map_parts(body, &mut |e| match e {
            read if read == self.read => Expr::Get { node: copy, index: self.index.clone() },
            other => other,
        });
    }
}

fn is_of_symbols(index: &Affine) -> bool {
    index.terms().iter().all(|(var, _)| matches!(var, Var::Symbol(_)))
}

/// One more than the greatest value of an index of a contraction; none if no symbol decides it.
fn end(index: &Affine, contraction: &Contraction) -> Option<Affine> {
    let Contraction { batch, rows, columns, depth, dynamic, .. } = contraction;
    let mut end = Affine::constant(index.offset() + 1);
    for &(var, factor) in index.terms() {
        let last = match var {
            Var::Symbol(_) => Affine::var(var),
            Var::Loop(_) if factor < 0 => continue,
            Var::Loop(id) => match dynamic.iter().find(|(of, _)| *of == id) {
                Some((_, end)) => end.plus_constant(-1),
                None => {
                    let axis =
                        [batch, rows, columns, depth].into_iter().flatten().find(|axis| axis.var == id)?;
                    Affine::constant(axis.extent - 1)
                }
            },
        };
        end = end.plus(&last.times(factor));
    }
    end.as_constant().is_none().then_some(end)
}

/// The products of a contraction for all outputs together.
fn products(contraction: &Contraction) -> Option<i64> {
    let batch = contraction.batch.iter().try_fold(1i64, |all, axis| all.checked_mul(axis.extent))?;
    [contraction.num_rows(), contraction.num_columns(), contraction.num_products()]
        .into_iter()
        .try_fold(batch, i64::checked_mul)
}
