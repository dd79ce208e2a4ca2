//! The place of an output of a tensor-core kernel, in variables that are partly known at compile time.
//!
//! A thread has adjacent columns of several rows. Their distances are constants, so that the accesses of one
//! thread become offsets from one address and vectors.

use codegen_core::Checked;
use codegen_core::canonical::Axis;
use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Affine, Block, Bound, LoopId, LoopKind, LoweredRoutine, Stmt, walk};
use codegen_core::matrices::Matrix;
use ptx_asm::{AddressBase, PtxBinaryOp, Reg, Ty};

use super::memory::MemoryObject;
use super::{Emitter, UnrolledLoop};
use crate::tensor_cores::OutputElements;

/// Variables for the position of an output.
#[derive(Clone, Copy)]
pub(super) struct OutputVars {
    /// The variable for the constant offset that is added to the row.
    pub(super) row: LoopId,
    /// The variable for half of the first column; an output's column is twice this variable plus `column`.
    half: LoopId,
    column: LoopId,
}

impl OutputVars {
    /// Variables that a kernel does not use.
    pub(super) fn new(kernel: &LoweredRoutine) -> OutputVars {
        let free = walk::loops_in(&kernel.body).last().map_or(0, |last| last.0 + 1);
        OutputVars { row: LoopId(free), half: LoopId(free + 1), column: LoopId(free + 2) }
    }

    /// A block with sums of variables in the places of the row and the column.
    pub(super) fn placed(&self, mut block: Block, row: LoopId, column: LoopId) -> Block {
        let place = Affine::term(self.half, 2).plus(&Affine::var(self.column));
        walk::substitute(&mut block, column, &place);
        walk::substitute(&mut block, row, &Affine::var(row).plus(&Affine::var(self.row)));
        block
    }

    /// A loop over two adjacent columns.
    pub(super) fn pair(&self, body: Block) -> Stmt {
        Stmt::For { var: self.column, lo: 0, hi: Bound::from(2), kind: LoopKind::Unrolled, body }
    }

    /// Sets the variables of one loop over rows; [`Emitter::leave`] twice undoes it.
    pub(super) fn enter_row(&self, e: &mut Emitter<'_>, axis: Axis, (row, behind): (Reg, u32)) {
        e.enter(axis.var, LoopIndex::Computed(row, (0, axis.extent - 1)));
        e.enter(self.row, LoopIndex::Known(i64::from(behind)));
    }

    /// Writes code for each of several adjacent outputs of a row, with the variables set to its column.
    /// `columns` is the number of columns of a row.
    pub(super) fn each_column<'k, W>(
        &self,
        writer: &mut W,
        emitter: impl Fn(&mut W) -> &mut Emitter<'k>,
        columns: i64,
        outputs: OutputElements,
        mut write: impl FnMut(&mut W, usize) -> Checked,
    ) -> Checked {
        let (half, first) = outputs.column;
        let e = emitter(writer);
        e.enter(self.half, LoopIndex::Computed(half, (0, columns / 2)));
        let extent = outputs.count as i64;
        e.unrolled.push(UnrolledLoop { var: self.column, lo: i64::from(first), extent });
        let mut checked = Ok(());
        for n in 0..outputs.count {
            emitter(writer).enter(self.column, LoopIndex::Known(i64::from(first) + n as i64));
            checked = checked.and(write(writer, n));
            emitter(writer).leave();
        }
        let e = emitter(writer);
        e.unrolled.pop();
        e.leave();
        checked
    }
}

impl Emitter<'_> {
    /// Sets the variables of loops from the digits of a linear index. Returns how many there are.
    pub(super) fn enter_digits(&mut self, number: Reg, axes: &[Axis]) -> usize {
        let extents: Vec<u32> = axes.iter().map(|axis| axis.extent as u32).collect();
        let digits = self.digits(number, &extents);
        for (axis, digit) in axes.iter().zip(digits) {
            let index =
                digit.map_or(LoopIndex::Known(0), |digit| LoopIndex::Computed(digit, (0, axis.extent - 1)));
            self.enter(axis.var, index);
        }
        axes.len()
    }

    /// The address of a matrix's first element.
    pub(super) fn first_element(&mut self, matrix: &Matrix) -> Reg {
        let element = self.element(MemoryObject::Node(matrix.node), &matrix.base, matrix.dtype.size_bytes());
        let AddressBase::Reg(base) = element.base else { return self.bases[matrix.node.index()] };
        match element.offset {
            0 => base,
            offset => self.b.index(PtxBinaryOp::Add, Ty::S64, base, i64::from(offset) as u64),
        }
    }
}
