//! Instructions of sm_90a.

use super::{CheckResult, Checker, class, exists, operands, same, within};
use crate::inst::Ty;
use crate::program::{AddressOperand, PtxOperand, Reg, RegClass, StateSpace, Target};

/// Maximum number of arrivals, and of transaction bytes, of a phase of an mbarrier.
pub(super) const MAX_MBARRIER_COUNT: u32 = (1 << 20) - 1;

impl Checker<'_> {
    /// Checks the target, and that a register has class `expected`.
    pub(super) fn hopper_register(&self, reg: Reg, expected: RegClass) -> CheckResult {
        self.from(Target::Sm90a)?;
        class(reg, expected)
    }

    pub(super) fn map(&self, dst: Reg, map: u32) -> CheckResult {
        self.hopper_register(dst, RegClass::B64)?;
        let maps = self.kernel.maps;
        if map < maps { Ok(()) } else { Err(format!("there are {maps} tensor maps")) }
    }

    /// Checks the address of an mbarrier in shared memory.
    pub(super) fn mbarrier(&self, at: AddressOperand) -> CheckResult {
        self.from(Target::Sm90a)?;
        self.place(StateSpace::Shared, at, 8)
    }

    /// Checks the operands of a TMA load or store, except the bounds of the tile in shared memory: the tensor
    /// map, which is known only at the launch, has the tile's size.
    pub(super) fn tile(&self, map: Reg, at: &[PtxOperand], shared: AddressOperand) -> CheckResult {
        self.hopper_register(map, RegClass::B64)?;
        within("axes", at.len() as u32, 1, 5)?;
        operands(Ty::S32, at)?;
        self.aligned(StateSpace::Shared, shared, 16, 128)
    }

    /// Checks that the block consists of whole warpgroups.
    pub(super) fn warpgroups(&self) -> CheckResult {
        self.from(Target::Sm90a)?;
        if self.kernel.threads.is_multiple_of(128) {
            return Ok(());
        }
        Err(format!("a block of {} threads, expected whole warpgroups of 128", self.kernel.threads))
    }

    pub(super) fn set_max_registers(&self, count: u32) -> CheckResult {
        self.warpgroups()?;
        within("registers", count, 24, 256)?;
        if !count.is_multiple_of(8) {
            return Err(format!("{count} registers, expected a multiple of 8"));
        }
        if self.kernel.min_blocks_per_sm.is_none() {
            // Without this number, an assembler ignores the instruction and only prints a remark.
            return Err("the kernel has no minimum number of blocks per SM".into());
        }
        Ok(())
    }

    /// Checks [`crate::Inst::Wgmma`]; the three registers are `a`, `b` and `accumulate`.
    pub(super) fn wgmma(
        &self,
        (element, columns, transposed): (Ty, u32, [bool; 2]),
        d: &[Reg],
        [a, b, accumulate]: [Reg; 3],
    ) -> CheckResult {
        self.warpgroups()?;
        exists(matches!(element, Ty::F16 | Ty::Bf16 | Ty::F32), element)?;
        if element == Ty::F32 && transposed != [false; 2] {
            return Err("tf32 operands are K-major".into());
        }
        within("columns", columns, 8, 256)?;
        if !columns.is_multiple_of(8) {
            return Err(format!("{columns} columns, expected a multiple of 8"));
        }
        same("accumulator registers", d.len() as u32, columns / 2)?;
        d.iter().try_for_each(|&reg| class(reg, RegClass::F32))?;
        if (1..d.len()).any(|i| d[..i].contains(&d[i])) {
            return Err("two accumulators are one register".into());
        }
        class(a, RegClass::B64)?;
        class(b, RegClass::B64)?;
        class(accumulate, RegClass::Pred)
    }
}
