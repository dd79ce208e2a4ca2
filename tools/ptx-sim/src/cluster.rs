//! Clusters: `mapa`, the cluster barrier, and the conditions for a cluster's end.

use super::fault::{FaultCause, InLane, StepResult, malformed};
use super::registers::lanes;
use super::scheduler::{ClusterState, LaunchState};
use super::warp::Warp;
use super::wgmma::WarpgroupProgress;
use ptx_asm::{AddressOperand, PtxOperand, Reg, StateSpace};

/// Distance between the windows of blocks in the cluster's shared address space. A block's own addresses also
/// have its rank in their upper bits.
const WINDOW: u64 = 1 << 24;

/// The address in the cluster's shared address space of an address in a block's window.
pub(super) fn in_cluster(rank: u32, address: u64) -> u64 {
    WINDOW * u64::from(rank) + address
}

/// Splits a shared address into the rank of a block and the address in that block's window.
pub(super) fn parts(address: u64) -> (u32, u64) {
    ((address / WINDOW) as u32, address % WINDOW)
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::Mapa`].
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
            let (rank, address) = parts(addresses[lane]);
            if rank != warp.rank {
                return malformed(format!("{:#x} is no address of the block", addresses[lane])).in_lane(lane);
            }
            mapped[lane] = in_cluster(found, address);
        }
        warp.registers.set(self.program, dst, mask, &mapped);
        Ok(())
    }

    /// Checks that a cluster whose warps have all ended may end. Asynchronous operations and arrivals from
    /// other blocks must have been waited for, so that nothing accesses a block's shared memory later.
    pub(super) fn may_end(
        &self,
        warps: &[Warp],
        shared: &ClusterState,
    ) -> Result<(), (usize, Box<FaultCause>)> {
        let outstanding = |at: usize, what: String| Err((at, Box::new(FaultCause::Outstanding(what))));
        for (at, warp) in warps.iter().enumerate() {
            warp.wgmma.may_end().map_err(|what| (at, Box::new(FaultCause::Outstanding(what))))?;
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

    /// Releases all warps of the cluster at a [`ptx_asm::Inst::ClusterBarrier`] once the last one has
    /// arrived.
    pub(super) fn arrive_at_cluster_barrier(&self, warps: &mut [Warp], shared: &mut ClusterState) {
        if warps.iter().all(|warp| warp.is_at_cluster_barrier()) {
            let rows: Vec<usize> =
                warps.iter().map(|warp| shared.clocks.row(warp.rank, warp.number)).collect();
            shared.clocks.synchronize(&rows);
            warps.iter_mut().for_each(Warp::pass);
        }
    }
}
