//! Registers of a warp: one value per lane, and the lanes that have written it.

use super::arith::truncate;
use super::fault::{FaultCause, InLane, StepResult};
use super::flat_kernel::FlatKernel;
use ptx_asm::{GuardPredicate, PtxOperand, Reg};

/// The values of a register or operand in the lanes of a warp.
pub(super) type LaneValues = [u64; 32];

/// The lanes of a mask, lowest first.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

#[derive(Debug)]
pub(super) struct WarpRegisters {
    values: Vec<LaneValues>,
    /// For each register, the mask of lanes that have written it.
    written: Vec<u32>,
}

impl WarpRegisters {
    pub(super) fn new(program: &FlatKernel<'_>) -> WarpRegisters {
        let count = program.registers();
        WarpRegisters { values: vec![[0; 32]; count], written: vec![0; count] }
    }

    /// The values of a register.
    ///
    /// # Errors
    ///
    /// [`FaultCause::UnwrittenRegister`] if a lane of `mask` has not written it.
    pub(super) fn get(&self, program: &FlatKernel<'_>, reg: Reg, mask: u32) -> StepResult<&LaneValues> {
        let at = program.register(reg);
        let missing = mask & !self.written[at];
        if missing != 0 {
            let cause = Box::new(FaultCause::UnwrittenRegister { reg });
            return Err(cause).in_lane(missing.trailing_zeros() as usize);
        }
        Ok(&self.values[at])
    }

    /// The values of a source operand.
    pub(super) fn operand(
        &self,
        program: &FlatKernel<'_>,
        operand: PtxOperand,
        mask: u32,
    ) -> StepResult<LaneValues> {
        match operand {
            PtxOperand::Reg(reg) => self.get(program, reg, mask).copied(),
            PtxOperand::Const(value) => Ok([value; 32]),
        }
    }

    /// Writes the lanes of `mask`, truncating values to the width of the register.
    pub(super) fn set(&mut self, program: &FlatKernel<'_>, reg: Reg, mask: u32, values: &LaneValues) {
        let at = program.register(reg);
        for lane in lanes(mask) {
            self.values[at][lane] = truncate(values[lane], reg.class.bits());
        }
        self.written[at] |= mask;
    }

    /// The lanes of `mask` for which a guard is true.
    pub(super) fn holds(
        &self,
        program: &FlatKernel<'_>,
        guard: GuardPredicate,
        mask: u32,
    ) -> StepResult<u32> {
        let values = self.get(program, guard.pred, mask)?;
        Ok(lanes(mask)
            .filter(|&lane| (values[lane] != 0) == guard.when)
            .fold(0, |held, lane| held | 1 << lane))
    }
}
