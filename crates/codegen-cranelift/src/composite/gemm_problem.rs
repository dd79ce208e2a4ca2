//! Translates a contraction in canonical form to a [`GemmProblem`].
//!
//! If several loops form one dimension, their iterations are numbered consecutively. If the position in an
//! array is not linear in that number, the array gets a table of offsets.

use codegen_core::canonical::{self, Arrays, Axis, Contraction};
use lowered_ir::ir::{Affine, Expr, Guard, Indices, LoopId, LoweredRoutine, NodeRef, Var};
use microkernels::{
    AxisOffsets, COLUMN, Dimension, DynamicExtent, GemmOperand, GemmProblem, OperandBound, ParallelAxis, ROW,
    batch_index,
};
use tnode::DType;
use vector_asm::{Index, LaneType, StoredType, VectorAddress, VectorProgram};

/// Translates the contraction of a kernel, with its epilogue; `None` if `microkernels` cannot describe an
/// operand.
pub(super) fn gemm_problem(
    nest: &Contraction,
    epilogue: VectorProgram,
    routine: &LoweredRoutine,
    arrays: &Arrays,
) -> Option<GemmProblem> {
    let mut builder = ProblemBuilder { nest, routine, arrays, depth: nest.depth.clone() };
    if builder.element(&nest.left)? == LaneType::I32 {
        builder.order_depth()?;
    }
    let a = builder.operand(&nest.left, &nest.rows)?;
    let b = builder.operand(&nest.right, &nest.columns)?;
    let initial = match &nest.start {
        Some(Expr::Get { node, index }) => Some(builder.place(*node, index)?),
        Some(_) => return None,
        None => None,
    };
    Some(GemmProblem {
        element: builder.element(&nest.left)?,
        batch: nest.batch.iter().map(|axis| axis.extent as u64).collect(),
        m: nest.num_rows() as u64,
        n: nest.num_columns() as u64,
        k: nest.num_products() as u64,
        dynamic: nest.dynamic.iter().map(|(var, end)| dynamic(nest, *var, end)).collect::<Option<_>>()?,
        a,
        b,
        initial,
        epilogue,
        parallel: parallel_axis(nest),
    })
}

/// The extent of the dimension whose outermost loop ends at a sum of symbols.
fn dynamic(nest: &Contraction, var: LoopId, end: &Affine) -> Option<(Dimension, DynamicExtent)> {
    let sides = [(Dimension::M, &nest.rows), (Dimension::N, &nest.columns), (Dimension::K, &nest.depth)];
    let heads = |axes: &[Axis]| axes.first().is_some_and(|axis| axis.var == var);
    let (dimension, inner) = match sides.into_iter().find(|(_, axes)| heads(axes)) {
        Some((dimension, axes)) => (dimension, axes.iter().skip(1).map(|axis| axis.extent).product()),
        None => (Dimension::Batch(nest.batch.iter().position(|axis| axis.var == var)?), 1),
    };
    let end = end.checked_times(inner)?;
    let term = |&(var, factor): &(Var, i64)| match var {
        Var::Symbol(symbol) => Some((symbol.0, factor)),
        Var::Loop(_) => None,
    };
    let terms = end.terms().iter().map(term).collect::<Option<_>>()?;
    Some((dimension, DynamicExtent { offset: end.offset(), terms }))
}

/// The number of positions along the parallel axis in one iteration of the kernel's parallel loop.
pub(super) fn parallel_unit(nest: &Contraction) -> u64 {
    let axis = match parallel_axis(nest) {
        ParallelAxis::Rows => &nest.rows,
        ParallelAxis::Columns => &nest.columns,
        ParallelAxis::None | ParallelAxis::Batch => return 1,
    };
    axis.iter().skip(1).map(|inner| inner.extent as u64).product()
}

fn parallel_axis(nest: &Contraction) -> ParallelAxis {
    let Some(var) = nest.parallel else { return ParallelAxis::None };
    let heads = |axes: &[Axis]| axes.first().is_some_and(|axis| axis.var == var);
    match () {
        () if heads(&nest.batch) => ParallelAxis::Batch,
        () if heads(&nest.rows) => ParallelAxis::Rows,
        () => ParallelAxis::Columns,
    }
}

struct ProblemBuilder<'a> {
    nest: &'a Contraction,
    routine: &'a LoweredRoutine,
    arrays: &'a Arrays<'a>,
    /// The loops over K.
    depth: Vec<Axis>,
}

impl ProblemBuilder<'_> {
    /// Orders the loops over K so that the left operand is read in ascending order. Only sums that wrap may
    /// be added in another order than that of the nest.
    fn order_depth(&mut self) -> Option<()> {
        let (node, index, _) = parts(&self.nest.left)?;
        let at = self.arrays.position(node, index);
        self.depth.sort_by_key(|axis| std::cmp::Reverse(at.coefficient(axis.var)));
        Some(())
    }

    fn element(&self, operand: &Expr) -> Option<LaneType> {
        let (node, ..) = parts(operand)?;
        match self.routine.node(node).dtype {
            DType::F32 | DType::F16 | DType::Bf16 => Some(LaneType::F32),
            DType::F64 => Some(LaneType::F64),
            DType::U8 | DType::I8 => Some(LaneType::I32),
            _ => None,
        }
    }

    /// The type in which an operand is stored. Narrow numbers are converted when they are read.
    fn memory(&self, node: NodeRef) -> StoredType {
        match self.routine.node(node).dtype {
            DType::F16 => StoredType::F16,
            DType::Bf16 => StoredType::BF16,
            DType::U8 => StoredType::U8,
            DType::I8 => StoredType::I8,
            _ => StoredType::Same,
        }
    }

    fn operand(&self, operand: &Expr, outer: &[Axis]) -> Option<GemmOperand> {
        let (node, index, guard) = parts(operand)?;
        let at = self.bytes(node, index);
        let (offset, terms) = self.fixed(&at, &[outer, &self.depth])?;
        Some(GemmOperand {
            base: node.0,
            memory: self.memory(node),
            offset,
            terms,
            outer: offsets(&at, outer),
            k: offsets(&at, &self.depth),
            bounds: guard.iter().map(|range| self.bounds(range, outer)).collect::<Option<_>>()?,
            outside: outside(operand),
            zero: canonical::zero_point(operand),
        })
    }

    /// The address of a node's element, in terms of the row and the column of the output.
    fn place(&self, node: NodeRef, index: &Indices) -> Option<VectorAddress> {
        let at = self.bytes(node, index);
        let (offset, mut terms) = self.fixed(&at, &[&self.nest.rows, &self.nest.columns])?;
        let step = |axes: &[Axis]| axes.last().map_or(0, |axis| at.coefficient(axis.var));
        let (row, column) = (step(&self.nest.rows), step(&self.nest.columns));
        terms.extend([(ROW, row), (COLUMN, column)].into_iter().filter(|(_, bytes)| *bytes != 0));
        Some(VectorAddress { base: Some(node.0), offset, terms, step: column, memory: StoredType::Same })
    }

    /// The position of an element in bytes.
    fn bytes(&self, node: NodeRef, index: &Indices) -> Affine {
        let size = self.routine.node(node).dtype.size_bytes() as i64;
        self.arrays.position(node, index).times(size)
    }

    /// The part of an index that is constant along the `varying` dimensions: the offset, and the terms of
    /// batch loops and bindings.
    fn fixed(&self, at: &Affine, varying: &[&[Axis]]) -> Option<(i64, Vec<(Index, i64)>)> {
        let mut terms = Vec::new();
        for &(var, bytes) in at.terms() {
            match var {
                Var::Symbol(symbol) => terms.push((Index::Binding(symbol.0), bytes)),
                Var::Loop(var) if varying.iter().any(|axes| axes.iter().any(|axis| axis.var == var)) => {}
                Var::Loop(var) => terms.push((self.batch(var)?, bytes)),
            }
        }
        Some((at.offset(), terms))
    }

    fn batch(&self, var: LoopId) -> Option<Index> {
        self.nest.batch.iter().position(|axis| axis.var == var).map(|at| batch_index(at as u32))
    }

    fn bounds(&self, range: &lowered_ir::ir::Range, outer: &[Axis]) -> Option<OperandBound> {
        let axes = [outer, &self.depth];
        let (offset, terms) = self.fixed(&range.index, &axes)?;
        if !terms.is_empty() {
            return None;
        }
        let first = offset.checked_sub(range.lo)?;
        Some(OperandBound {
            outer: table(&range.index, outer).into(),
            k: table(&range.index, &self.depth).into_iter().map(|at| at + first).collect(),
            limit: range.hi.checked_sub(range.lo)?,
        })
    }
}

/// The node and the index that an operand reads, and the ranges within which it exists.
fn parts(operand: &Expr) -> Option<(NodeRef, &Indices, &[lowered_ir::ir::Range])> {
    match canonical::read_of(operand) {
        Expr::Get { node, index } | Expr::GetMerge { node, index } => Some((*node, index, &[])),
        Expr::GetGuarded { guard, node, index, .. } => Some((*node, index, Guard::as_slice(guard))),
        _ => None,
    }
}

/// The bits of an integer where a guard excludes it.
fn outside(operand: &Expr) -> u8 {
    match canonical::read_of(operand) {
        Expr::GetGuarded { otherwise, .. } => match &**otherwise {
            Expr::Const(number) => number.bits() as u8,
            _ => 0,
        },
        _ => 0,
    }
}

/// The offset of each position along a dimension.
fn offsets(at: &Affine, axes: &[Axis]) -> AxisOffsets {
    let inner = axes.last().map_or(0, |axis| at.coefficient(axis.var));
    let mut run = inner;
    let linear = axes.iter().rev().all(|axis| {
        let fits = at.coefficient(axis.var) == run;
        run = run.wrapping_mul(axis.extent);
        fits
    });
    if linear { AxisOffsets::Strided(inner) } else { AxisOffsets::Table(table(at, axes).into()) }
}

/// The table of offsets of each position along a dimension.
fn table(at: &Affine, axes: &[Axis]) -> Vec<i64> {
    axes.iter().fold(vec![0], |table, axis| {
        let step = at.coefficient(axis.var);
        let rows = table.iter().flat_map(|start| (0..axis.extent).map(move |i| start + step * i));
        rows.collect()
    })
}
