//! Clusters: where another block's memory is, when all blocks meet, and what has to be over at their end.

use super::fault::{FaultCause, InLane, StepResult, malformed};
use super::registers::lanes;
use super::scheduler::{ClusterState, LaunchState};
use super::warp::Warp;
use super::wgmma::WarpgroupProgress;
use ptx_asm::{AddressOperand, PtxOperand, Reg, StateSpace};

/// Where the window of block 0 begins; that of the next is as much further. No address of a block's own window is as large.
const WINDOW: u64 = 1 << 24;

/// The block that an address of the cluster's window is of, and the address in its own window.
pub(super) fn parts(address: u64) -> (Option<u32>, u64) {
    let window = address / WINDOW;
    (window.checked_sub(1).map(|rank| rank as u32), address % WINDOW)
}

impl LaunchState<'_> {
    /// [`ptx_asm::Inst::Mapa`].
    pub(super) fn mapa(
        &self,
        warp: &mut Warp,
        mask: u32,
        dst: Reg,
        at: AddressOperand,
        block: PtxOperand,
    ) -> StepResult<()> {
        let addresses = self.addresses(warp, mask, StateSpace::Shared, at)?;
        let ranks = warp.registers.operand(self.program, block, mask)?;
        let mut mapped = [0; 32];
        for lane in lanes(mask) {
            let found = ranks[lane] as u32;
            if found >= self.cluster {
                let cause = FaultCause::ClusterBlock { found, blocks: self.cluster };
                return Err(Box::new(cause)).in_lane(lane);
            }
            if addresses[lane] >= WINDOW {
                return malformed(format!("{:#x} is no address of a block", addresses[lane])).in_lane(lane);
            }
            mapped[lane] = WINDOW * (u64::from(found) + 1) + addresses[lane];
        }
        warp.registers.set(self.program, dst, mask, &mapped);
        Ok(())
    }

    /// Whether a cluster whose threads have all ended may: nothing may come to a block after its end.
    pub(super) fn may_end(
        &self,
        warps: &[Warp],
        shared: &ClusterState,
    ) -> Result<(), (usize, Box<FaultCause>)> {
        let outstanding = |at: usize, what: String| Err((at, Box::new(FaultCause::Outstanding(what))));
        for (at, warp) in warps.iter().enumerate() {
            warp.products.may_end().map_err(|what| (at, Box::new(FaultCause::Outstanding(what))))?;
        }
        let even = |rank: usize| shared.block_states[rank].warpgroups.iter().all(WarpgroupProgress::is_even);
        if let Some(rank) = (0..shared.block_states.len()).find(|&rank| !even(rank)) {
            return outstanding(
                0,
                format!("all warps of a warpgroup of block {rank} of the cluster do the same"),
            );
        }
        for (rank, expected) in shared.expects.iter().enumerate() {
            for (&column, (time, what)) in expected {
                let moment = super::vector_clocks::Timestamp { column, time: *time };
                if !shared.clocks.block_knows(rank as u32, moment) {
                    let first = warps.iter().position(|warp| warp.rank == rank as u32).unwrap_or(0);
                    return outstanding(first, what.clone());
                }
            }
        }
        shared.stores.may_end().or_else(|what| outstanding(0, what))
    }

    /// A warp comes to a [`ptx_asm::Inst::ClusterBarrier`]; all those of the cluster go on once the last has come.
    pub(super) fn meet_cluster(&self, warps: &mut [Warp], shared: &mut ClusterState) {
        if warps.iter().all(|warp| warp.is_at_cluster_barrier()) {
            let rows: Vec<usize> =
                warps.iter().map(|warp| shared.clocks.row(warp.rank, warp.number)).collect();
            shared.clocks.meet(&rows);
            warps.iter_mut().for_each(Warp::pass);
        }
    }
}
