//! The registers of a warp: what every lane has in each, and whether it ever wrote it.

use super::arith::cut;
use super::fault::{FaultCause, InLane, StepResult};
use super::flat_kernel::FlatKernel;
use ptx_asm::{GuardPredicate, PtxOperand, Reg};

/// One number for each lane.
pub(super) type LaneValues = [u64; 32];

/// The lanes in a mask, lowest first.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

#[derive(Debug)]
pub(super) struct WarpRegisters {
    values: Vec<LaneValues>,
    /// Of each register, the lanes that wrote it.
    written: Vec<u32>,
}

impl WarpRegisters {
    pub(super) fn new(program: &FlatKernel<'_>) -> WarpRegisters {
        let count = program.registers();
        WarpRegisters { values: vec![[0; 32]; count], written: vec![0; count] }
    }

    /// What these lanes have in a register.
    ///
    /// # Errors
    ///
    /// [`FaultCause::UnwrittenRegister`] if one of them has nothing.
    pub(super) fn get(&self, program: &FlatKernel<'_>, reg: Reg, mask: u32) -> StepResult<&LaneValues> {
        let at = program.register(reg);
        let missing = mask & !self.written[at];
        if missing != 0 {
            let cause = Box::new(FaultCause::UnwrittenRegister { reg });
            return Err(cause).in_lane(missing.trailing_zeros() as usize);
        }
        Ok(&self.values[at])
    }

    /// What an instruction reads.
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

    /// Gives these lanes new values, of which the register keeps as many bits as it has.
    pub(super) fn set(&mut self, program: &FlatKernel<'_>, reg: Reg, mask: u32, values: &LaneValues) {
        let at = program.register(reg);
        for lane in lanes(mask) {
            self.values[at][lane] = cut(values[lane], reg.class.bits());
        }
        self.written[at] |= mask;
    }

    /// The lanes for which a guard holds.
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
