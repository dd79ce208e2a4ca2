//! Matmuls: contractions in [canonical form](crate::canonical) whose operands have one stride along the rows,
//! one along the columns and one along `k`. Matrix instructions take such operands.

use lowered_ir::ir::{Affine, Expr, Indices, LoopId, NodeRef, Stmt, Var, walk};
use tnode::DType;

use crate::DTypeSet;
use crate::canonical::{Arrays, Axis, Contraction, read_of};

/// A matmul, or a batch of them.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulNest {
    /// The loops and the epilogue. Rows are one loop, and so are columns: loops that form one axis are
    /// replaced by the innermost one with the iterations of all, since all accesses move along it alike.
    pub contraction: Contraction,
    /// Operand A: rows by `k`.
    pub left: Matrix,
    /// Operand B: columns by `k`.
    pub right: Matrix,
}

/// An operand or a result in memory. Strides are in elements of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The node that holds the elements.
    pub node: NodeRef,
    /// The type of its elements in memory, before they are converted to the type of the accumulator.
    pub dtype: DType,
    /// The stride from one row, or column, of the contraction to the next.
    pub side: i64,
    /// The stride along `k`; of results, from one column to the next.
    pub depth: i64,
    /// The position of the first element, which depends on the batch and on symbols.
    pub base: Affine,
}

impl MatmulNest {
    /// Recognizes a contraction that is a matmul.
    pub fn of(contraction: Contraction, arrays: &Arrays) -> Option<MatmulNest> {
        if !contraction.dynamic.is_empty() {
            return None;
        }
        let matrix = |factor, side| Matrix::of(factor, side, &contraction.depth, arrays);
        let left = matrix(&contraction.left, &contraction.rows)?;
        let right = matrix(&contraction.right, &contraction.columns)?;
        let mut contraction = contraction;
        for is_row in [true, false] {
            join(&mut contraction, is_row);
        }
        Some(MatmulNest { contraction, left, right })
    }

    /// Whether tensor cores for operands of these types take it: both operands have the same one of these
    /// types, the accumulator is `f32`, copies have 16 bytes, and the matrices are large enough.
    pub fn suits_tensor_cores(&self, types: DTypeSet) -> bool {
        let whole = &self.contraction;
        let sizes = [whole.num_rows(), whole.num_columns(), whole.num_products()];
        let batch = whole.batch.iter().try_fold(1, |all: i64, axis| all.checked_mul(axis.extent));
        let strides = [&self.left, &self.right].map(|matrix| matrix.side.max(matrix.depth));
        types.contains(self.left.dtype)
            && self.left.dtype == self.right.dtype
            && batch.is_some_and(|batch| batch <= MOST)
            && strides.iter().all(|&stride| stride <= MOST)
            && sizes.iter().all(|&size| (LEAST..=MOST).contains(&size))
            && self.left.is_copied_in_runs(sizes[0], sizes[2])
            && self.right.is_copied_in_runs(sizes[1], sizes[2])
    }
}

impl MatmulNest {
    /// The results in the order of the statements that store them, if they may be stored late and 16 bytes at
    /// a time: each is stored into rows of a node of its own, which the epilogue does not read afterwards.
    pub fn stores(&self, arrays: &Arrays) -> Option<Vec<Matrix>> {
        let whole = &self.contraction;
        let mut stores: Vec<Matrix> = Vec::new();
        for stmt in &whole.epilogue {
            let is_stored = |node: NodeRef| stores.iter().any(|store| store.node == node);
            if reads(stmt, is_stored) {
                return None;
            }
            match stmt {
                Stmt::Set { node, .. } if is_stored(*node) => return None,
                Stmt::Set { node, index, .. } => {
                    let store = Matrix::at(*node, index, [&whole.rows, &whole.columns], arrays)?;
                    stores.push(store);
                }
                Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) => {}
                _ => return None,
            }
        }
        let suits = |store: &Matrix| store.is_stored_in_runs(whole.num_columns());
        (!stores.is_empty() && stores.iter().all(suits)).then_some(stores)
    }
}

/// Replaces the loops of the rows, or of the columns, by one.
fn join(contraction: &mut Contraction, is_row: bool) {
    let Contraction { rows, columns, start, epilogue, .. } = contraction;
    let axes = if is_row { rows } else { columns };
    let extent = axes.iter().map(|axis| axis.extent).product();
    let Some(Axis { var, .. }) = axes.pop() else { return };
    for Axis { var: outer, .. } in std::mem::replace(axes, vec![Axis { var, extent }]) {
        let zero = Affine::constant(0);
        walk::substitute(epilogue, outer, &zero);
        if let Some(element) = start {
            walk::map_own_indices(element, &mut |index| index.substitute(outer, &zero));
        }
    }
}

fn reads(stmt: &Stmt, node: impl Fn(NodeRef) -> bool) -> bool {
    walk::parts_in(std::slice::from_ref(stmt))
        .any(|e| matches!(e, Expr::Get { node: read, .. } if node(*read)))
}

/// The least number of rows, columns and products: fewer leave a tile mostly empty. And the greatest number
/// of these, of strides and of batches, so that 32 bits hold the products of them.
const LEAST: i64 = 16;
const MOST: i64 = 1 << 24;

/// Bytes of one copy.
const RUN: i64 = 16;

impl Matrix {
    fn of(factor: &Expr, side: &[Axis], depth: &[Axis], arrays: &Arrays) -> Option<Matrix> {
        let Expr::Get { node, index } = read_of(factor) else { return None };
        Matrix::at(*node, index, [side, depth], arrays)
    }

    /// The elements of a node at an index.
    pub(crate) fn at(
        node: NodeRef,
        index: &Indices,
        [side, depth]: [&[Axis]; 2],
        arrays: &Arrays,
    ) -> Option<Matrix> {
        let mut base = arrays.position(node, index);
        let side = stride(&mut base, side)?;
        let depth = stride(&mut base, depth)?;
        Some(Matrix { node, dtype: arrays.dtype(node), side, depth, base })
    }

    /// Whether elements are contiguous along `k`. Otherwise they are contiguous along rows or columns.
    pub fn is_depth_contiguous(&self) -> bool {
        self.depth == 1
    }

    /// Whether rows of this many elements are contiguous and can be copied in whole runs.
    pub(crate) fn has_rows_of_runs(&self, elements: i64) -> bool {
        let aligned = |elements| self.is_whole_runs(elements);
        self.depth == 1 && aligned(self.side) && aligned(elements) && self.begins_in_runs()
    }

    fn is_copied_in_runs(&self, side: i64, depth: i64) -> bool {
        let aligned = |elements| self.is_whole_runs(elements);
        match self.is_depth_contiguous() {
            true => self.has_rows_of_runs(depth),
            false => self.side == 1 && aligned(self.depth) && aligned(side) && self.begins_in_runs(),
        }
    }

    /// Whether rows are stored in whole vectors, in the type of the accumulator or a half-precision type.
    fn is_stored_in_runs(&self, columns: i64) -> bool {
        let is_plain = matches!(self.dtype, DType::F16 | DType::Bf16 | DType::F32);
        let rows = self.depth == 1 && self.side <= MOST && self.is_whole_runs(self.side);
        is_plain && rows && self.is_whole_runs(columns) && self.begins_in_runs()
    }

    fn begins_in_runs(&self) -> bool {
        let mut terms = self.base.terms().iter();
        self.is_whole_runs(self.base.offset()) && terms.all(|&(_, stride)| self.is_whole_runs(stride))
    }

    fn is_whole_runs(&self, elements: i64) -> bool {
        elements % (RUN / self.dtype.size_bytes() as i64) == 0
    }
}

/// Removes the stride of some loops from a position and returns it; none if the loops are not one axis in
/// that array.
fn stride(position: &mut Affine, axis: &[Axis]) -> Option<i64> {
    let steps: Vec<i64> = axis.iter().map(|a| position.coefficient(a.var)).collect();
    let mut expected = *steps.last()?;
    let inner = expected;
    for (axis, &step) in axis.iter().zip(&steps).rev() {
        if step != expected {
            return None;
        }
        expected = expected.checked_mul(axis.extent)?;
    }
    for axis in axis {
        *position = without(position, axis.var);
    }
    Some(inner).filter(|&stride| stride > 0)
}

fn without(position: &Affine, var: LoopId) -> Affine {
    let kept = position.terms().iter().filter(|(other, _)| *other != Var::Loop(var));
    kept.fold(Affine::constant(position.offset()), |mut sum, &(var, stride)| {
        sum.add_term(var, stride);
        sum
    })
}

#[cfg(test)]
mod tests {
    use lowered_ir::text::parse;

    use super::*;

    const HALVES: DTypeSet = DTypeSet::EMPTY.with(DType::F16).with(DType::Bf16);

    /// Recognizes the only nest of a routine as a matmul. `dims` are the dimensions of the nodes, `loops` the
    /// extents of rows, columns and depth, and `left` and `right` the indices of the operands.
    fn product(dims: [&str; 3], loops: [i64; 3], left: &str, right: &str) -> Option<MatmulNest> {
        let [a, b, c] = dims;
        let [m, n, k] = loops;
        let text = format!(
            "routine @product fast {{
               node %0 \"a\" bf16{a} on_device
               node %1 \"b\" bf16{b} on_device
               node %2 \"c\" f32{c} on_device
               for i0 in 0..{m} {{
                 for i1 in 0..{n} {{
                   declare l0 f32[] register
                   for i2 in 0..{k} {{
                     l0 := fma(convert f32(%0[{left}]), convert f32(%1[{right}]), l0)
                   }}
                   %2[i0, i1] := l0
                 }}
               }}
             }}"
        );
        let routine = parse(&text).expect("it is a routine");
        let arrays = Arrays::of(&routine);
        MatmulNest::of(Contraction::of(&routine.body[0], &arrays)?, &arrays)
    }

    #[test]
    fn strides_are_those_of_the_arrays() {
        let found = product(["[64, 32]", "[32, 48]", "[64, 48]"], [64, 48, 32], "i0, i2", "i2, i1");
        let found = found.expect("matrices");
        assert_eq!((found.left.side, found.left.depth), (32, 1));
        assert_eq!((found.right.side, found.right.depth), (1, 48));
        assert!(found.suits_tensor_cores(HALVES));
    }

    #[test]
    fn transposed_matrices_suit_as_well() {
        let found = product(["[32, 64]", "[48, 32]", "[64, 48]"], [64, 48, 32], "i2, i0", "i1, i2");
        let found = found.expect("matrices");
        assert_eq!((found.left.side, found.left.depth, found.right.side), (1, 64, 32));
        assert!(found.suits_tensor_cores(HALVES));
    }

    /// The nodes and strides of the stores of a matmul with this epilogue.
    fn stores(columns: i64, after: &str) -> Option<Vec<(u32, i64)>> {
        let text = format!(
            "routine @product fast {{
               node %0 \"a\" bf16[64, 32] on_device
               node %1 \"b\" bf16[32, {columns}] on_device
               node %2 \"c\" f32[64, {columns}] on_device
               node %3 \"d\" bf16[64, {columns}] on_device
               node %4 \"e\" i32[64, {columns}] on_device
               for i0 in 0..64 {{
                 for i1 in 0..{columns} {{
                   declare l0 f32[] register
                   for i2 in 0..32 {{
                     l0 := fma(convert f32(%0[i0, i2]), convert f32(%1[i2, i1]), l0)
                   }}
                   {after}
                 }}
               }}
             }}"
        );
        let routine = parse(&text).expect("it is a routine");
        let arrays = Arrays::of(&routine);
        let product = MatmulNest::of(Contraction::of(&routine.body[0], &arrays)?, &arrays)?;
        let stores = product.stores(&arrays)?;
        Some(stores.iter().map(|store| (store.node.0, store.side)).collect())
    }

    #[test]
    fn results_are_stored_later_unless_something_reads_them() {
        assert_eq!(stores(48, "%2[i0, i1] := l0"), Some(vec![(2, 48)]));
        let both = "%2[i0, i1] := %2[i0, i1] + l0  %3[i0, i1] := convert bf16(l0)";
        assert_eq!(stores(48, both), Some(vec![(2, 48), (3, 48)]));
        let read = "%2[i0, i1] := l0  %3[i0, i1] := convert bf16(%2[i0, i1])";
        assert_eq!(stores(48, read), None);
        let twice = "%2[i0, i1] := l0  %2[i0, i1] := l0 + l0";
        assert_eq!(stores(48, twice), None);
    }

    #[test]
    fn results_are_stored_in_whole_runs_of_floats() {
        assert_eq!(stores(44, "%2[i0, i1] := l0"), Some(vec![(2, 44)]));
        assert_eq!(stores(44, "%3[i0, i1] := convert bf16(l0)"), None);
        assert_eq!(stores(42, "%2[i0, i1] := l0"), None);
        assert_eq!(stores(48, "%4[i0, i1] := convert i32(l0)"), None);
    }

    #[test]
    fn runs_that_are_not_aligned_do_not() {
        let ragged = product(["[64, 36]", "[36, 48]", "[64, 48]"], [64, 48, 36], "i0, i2", "i2, i1");
        assert!(!ragged.expect("matrices").suits_tensor_cores(HALVES));
        let every_other = product(["[64, 64]", "[32, 48]", "[64, 48]"], [64, 48, 32], "i0, 2*i2", "i2, i1");
        assert!(!every_other.expect("matrices").suits_tensor_cores(HALVES));
        let far = product(["[64, 32]", "[32, 33554432]", "[64, 48]"], [64, 48, 32], "i0, i2", "i2, i1");
        assert!(!far.expect("matrices").suits_tensor_cores(HALVES));
        let small = product(["[8, 32]", "[32, 48]", "[8, 48]"], [8, 48, 32], "i0, i2", "i2, i1");
        assert!(!small.expect("matrices").suits_tensor_cores(HALVES));
    }
}
