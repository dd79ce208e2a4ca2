//! Collective instructions of a warp: shuffles.

use super::fault::{CheckResult, FaultCause, InLane, StepResult, malformed};
use super::registers::lanes;
use super::scheduler::LaunchState;
use super::warp::Warp;
use ptx_asm::{PtxOperand, Reg, ShuffleMode};

/// Checks that all 32 lanes execute an instruction.
pub(super) fn whole(mask: u32) -> StepResult<()> {
    if mask == u32::MAX {
        return Ok(());
    }
    let cause = FaultCause::PartialWarp { active: mask, expected: u32::MAX };
    Err(Box::new(cause)).in_lane(mask.trailing_zeros() as usize)
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::Shuffle`].
    pub(super) fn shuffle(
        &self,
        warp: &mut Warp,
        mask: u32,
        mode: ShuffleMode,
        (dst, src): (Reg, Reg),
        lane: PtxOperand,
        width: u32,
    ) -> StepResult<()> {
        whole(mask)?;
        if !width.is_power_of_two() || width > 32 || src.class.bits() != 32 {
            return malformed(format!("a shuffle of {src:?} in groups of {width}")).in_lane(0);
        }
        let values = *warp.registers.get(self.program, src, mask)?;
        let by = warp.registers.operand(self.program, lane, mask)?;
        let mut shuffled = [0; 32];
        for lane in lanes(mask) {
            let partner = partner(mode, lane as u32, by[lane] as u32, width).in_lane(lane)?;
            shuffled[lane] = values[partner as usize];
        }
        warp.registers.set(self.program, dst, mask, &shuffled);
        Ok(())
    }
}

/// The source lane of a shuffle.
fn partner(mode: ShuffleMode, lane: u32, by: u32, width: u32) -> CheckResult<u32> {
    let first = lane & !(width - 1);
    // The hardware uses the low five bits of the operand, which may select a lane of another segment. Here an
    // operand that is too large is a fault.
    let limit = match mode {
        ShuffleMode::Up | ShuffleMode::Down => 32,
        ShuffleMode::Xor | ShuffleMode::Index => width,
    };
    if by >= limit {
        return Err(Box::new(FaultCause::ShuffleLane { found: by, limit }));
    }
    Ok(match mode {
        ShuffleMode::Up if lane - first >= by => lane - by,
        ShuffleMode::Down if lane - first + by < width => lane + by,
        ShuffleMode::Up | ShuffleMode::Down => lane,
        ShuffleMode::Xor => lane ^ by,
        ShuffleMode::Index => first + by,
    })
}
