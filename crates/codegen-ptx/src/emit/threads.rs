//! Assigns iterations of the grid to blocks and threads, and emits barriers.

use codegen_core::emit::{LoopIndex, fits_i32, mixed_radix_digits};
use codegen_core::ir::Stmt;
use codegen_core::threads::{self, Grid};
use codegen_core::{Checked, reject};
use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, Reg, SpecialReg, Ty};

use super::Emitter;

impl<'k> Emitter<'k> {
    /// Emits the grid: computes the iteration from the block and thread indices, and emits the body for it.
    pub(super) fn grid(&mut self, grid: &Grid<'k>) -> Checked {
        if grid.extent == 0 {
            return Ok(());
        }
        let block = self.b.special(SpecialReg::Block);
        if self.is_cooperative {
            return self.iteration(grid, block);
        }
        let threads = self.block_threads;
        let id = self.b.index_sum(block, threads, self.thread);
        if grid.extent.is_multiple_of(threads) {
            return self.iteration(grid, id);
        }
        let takes_part = self.b.index_compare(CmpOp::Lt, Ty::U32, id, grid.extent);
        self.when(takes_part, |e| e.iteration(grid, id))
    }

    /// Emits a branch for threads whose predicate is true.
    pub(super) fn when(&mut self, pred: Reg, body: impl FnOnce(&mut Self) -> Checked) -> Checked {
        self.open();
        body(self)?;
        let then = self.close();
        self.b.push_stmt(ptx_asm::PtxStmt::If {
            guard: GuardPredicate::on(pred),
            then,
            otherwise: Vec::new(),
        });
        Ok(())
    }

    /// Emits the body with the grid's variables set for one iteration.
    fn iteration(&mut self, grid: &Grid<'k>, number: Reg) -> Checked {
        let extents: Vec<u32> = grid.axes.iter().map(|a| a.extent as u32).collect();
        let digits = self.digits(number, &extents);
        let mut within: Option<Reg> = None;
        for (axis, digit) in grid.axes.iter().zip(digits) {
            if !fits_i32(axis.lo) || !fits_i32(axis.lo + axis.extent) {
                return reject("a parallel loop", "its bounds exceed 32 bits, as which indices are computed");
            }
            let value = match digit {
                None => self.b.mov(Ty::S32.class(), axis.lo as i32),
                Some(digit) if axis.lo == 0 => digit,
                Some(digit) => self.b.index(PtxBinaryOp::Add, Ty::S32, digit, axis.lo as i32),
            };
            for clip in axis.hi.clips() {
                if !self.scope.fits(clip) {
                    return reject(
                        "a parallel loop",
                        "its bounds exceed 32 bits, as which indices are computed",
                    );
                }
                let clip = self.index(clip);
                let inside = self.b.index_compare(CmpOp::Lt, Ty::S32, value, clip);
                within = Some(match within {
                    None => inside,
                    Some(others) => self.b.index(PtxBinaryOp::And, Ty::Pred, others, inside),
                });
            }
            let index = match digit {
                None => LoopIndex::Known(axis.lo),
                Some(_) => LoopIndex::Computed(value, (axis.lo, axis.lo + axis.extent - 1)),
            };
            self.enter(axis.var, index);
        }
        match within {
            None => self.block(grid.body)?,
            Some(within) => self.when(within, |e| e.block(grid.body))?,
        }
        self.end_log();
        Ok(())
    }

    /// See [`mixed_radix_digits`].
    pub(super) fn digits(&mut self, number: Reg, extents: &[u32]) -> Vec<Option<Reg>> {
        mixed_radix_digits(number, extents, |n, by, below| self.divided(n, by, below))
    }

    /// Quotient and remainder of a number below `below`, divided by a constant. Assemblers implement a
    /// division by a constant as a general division of twenty instructions.
    ///
    /// Let `s` be the least number with `by <= 2^s`, and `m` the least integer above `2^(31 + s) / by`. Then
    /// the quotient of any `n < 2^31` is `n m / 2^(31 + s)`, truncated: `m by` exceeds `2^(31 + s)` by at
    /// most `by`, so the error is below `n / 2^31 / by`, less than the distance from the fraction of a
    /// quotient to 1. `m` has 32 bits, unless `by` is a power of two.
    fn divided(&mut self, number: Reg, by: u32, below: u64) -> (Reg, Reg) {
        if by.is_power_of_two() {
            let quotient = self.b.index(PtxBinaryOp::ShiftRight, Ty::U32, number, by.trailing_zeros());
            return (quotient, self.b.index(PtxBinaryOp::And, Ty::B32, number, by - 1));
        }
        if below > 1 << 31 {
            let quotient = self.b.index(PtxBinaryOp::Div, Ty::U32, number, by);
            return (quotient, self.b.index(PtxBinaryOp::Rem, Ty::U32, number, by));
        }
        let shift = by.next_power_of_two().trailing_zeros();
        let factor = ((1u64 << (31 + shift)) / u64::from(by) + 1) as u32;
        let high = self.b.index(PtxBinaryOp::MulHigh, Ty::U32, number, factor);
        let quotient = self.b.index(PtxBinaryOp::ShiftRight, Ty::U32, high, shift - 1);
        (quotient, self.b.index_sum(quotient, by.wrapping_neg(), number))
    }

    /// Emits an outermost workgroup loop.
    pub(super) fn workgroup(&mut self, stmt: &'k Stmt) -> Checked {
        if self.within {
            return reject("nested workgroup loops", "one stands in a loop inside of another");
        }
        let nest = threads::nest(stmt)?;
        let extents: Vec<u32> = nest.axes.iter().map(|&(_, extent)| extent).collect();
        let digits = self.digits(self.thread, &extents);
        for (&(var, extent), digit) in nest.axes.iter().zip(digits) {
            self.enter(
                var,
                digit.map_or(LoopIndex::Known(0), |digit| {
                    LoopIndex::Computed(digit, (0, i64::from(extent) - 1))
                }),
            );
        }
        self.within = true;
        if nest.threads == self.block_threads {
            // Registers written in the body belong to the thread, whether or not it is a block of its own.
            self.block(nest.body)?;
        } else {
            let takes_part = self.b.index_compare(CmpOp::Lt, Ty::U32, self.thread, nest.threads);
            self.when(takes_part, |e| e.block(nest.body))?;
        }
        self.within = false;
        nest.axes.iter().for_each(|_| self.leave());
        Ok(())
    }

    /// Emits the barrier that a statement needs, if any.
    pub(super) fn barrier_before(&mut self, stmt: &Stmt) {
        let zeroing = std::mem::take(&mut self.zeroing);
        if zeroing || self.barriers.is_before(stmt) {
            self.flush();
            self.forget_shared();
            self.b.push(Inst::Barrier { id: 0, threads: None });
        }
    }
}
