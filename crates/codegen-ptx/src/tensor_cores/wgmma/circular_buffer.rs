//! The circular buffer of pipeline stages in shared memory, with a *full* and an *empty* mbarrier per stage.
//!
//! A phase of a *full* mbarrier completes when the announced bytes have arrived, and a phase of an *empty*
//! mbarrier when all consumer warps have released the stage. A wait names the parity of a phase, which
//! alternates from one round of [`PipelineState`] through the buffer to the next.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxOperand, PtxStmt, Reg, RegClass,
    StateSpace, Ty,
};

use super::tile::{WARPS, WgmmaTile};

/// Bytes of an mbarrier.
const BARRIER: u32 = 8;
/// Alignment of stages: the period of the swizzle.
const ALIGN: u32 = 1024;

/// The circular buffer of a block.
pub(super) struct CircularBuffer {
    /// Address of the first stage.
    pub(super) window: Reg,
    /// Bytes of a stage.
    bytes: u32,
    /// Address of the first mbarrier: the *full* ones, then the *empty* ones.
    barriers: Reg,
    stages: u32,
}

/// The position of a producer or consumer in the circular buffer.
pub(super) struct PipelineState {
    /// Index of the stage.
    pub(super) stage: Reg,
    /// Parity of the phase to wait for.
    parity: Reg,
}

/// The addresses of a stage and its mbarriers.
pub(super) struct PipelineStage {
    pub(super) window: Reg,
    pub(super) full: AddressOperand,
    empty: AddressOperand,
}

impl CircularBuffer {
    pub(super) fn new(b: &mut PtxBuilder, tile: &WgmmaTile) -> CircularBuffer {
        let stages = b.shared(tile.stages * tile.stage_bytes(), ALIGN);
        let barriers = b.shared(2 * tile.stages * BARRIER, BARRIER);
        let window = b.address(StateSpace::Shared, stages);
        let barriers = b.address(StateSpace::Shared, barriers);
        CircularBuffer { window, bytes: tile.stage_bytes(), barriers, stages: tile.stages }
    }

    /// Initializes the mbarriers and synchronizes the block or cluster.
    pub(super) fn initialize(&self, b: &mut PtxBuilder, tile: &WgmmaTile, thread: Reg) {
        let is_first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
        b.when(GuardPredicate::on(is_first), |b| {
            for stage in 0..self.stages {
                let at = |number: u32| AddressOperand::at(self.barriers).plus((number * BARRIER) as i32);
                b.push(Inst::MbarrierInit { at: at(stage), count: 1 });
                let count = WARPS * tile.consumers * tile.cluster;
                b.push(Inst::MbarrierInit { at: at(self.stages + stage), count });
            }
            b.push(Inst::FenceMbarrierInit);
            b.push(Inst::FenceProxyAsync);
        });
        match tile.cluster {
            1 => b.barrier(),
            _ => b.push(Inst::ClusterBarrier),
        }
    }

    /// The stage at a position.
    pub(super) fn stage(&self, b: &mut PtxBuilder, state: &PipelineState) -> PipelineStage {
        let window = b.mul_add(Ty::U32, state.stage, self.bytes, self.window);
        let full = AddressOperand::at(b.mul_add(Ty::U32, state.stage, BARRIER, self.barriers));
        PipelineStage { window, full, empty: full.plus((self.stages * BARRIER) as i32) }
    }

    /// Waits until all consumers have released the stage.
    pub(super) fn wait_empty(
        &self,
        b: &mut PtxBuilder,
        tile: &WgmmaTile,
        stage: &PipelineStage,
        state: &PipelineState,
    ) {
        b.push(Inst::MbarrierWait { at: stage.empty, parity: state.parity, cluster: tile.cluster > 1 });
    }

    /// Announces the number of bytes that TMA will load into the stage.
    pub(super) fn expect(&self, b: &mut PtxBuilder, stage: &PipelineStage, bytes: u32) {
        b.push(Inst::MbarrierArriveExpectTx { at: stage.full, bytes });
    }

    /// Waits until the stage is loaded.
    pub(super) fn wait_full(&self, b: &mut PtxBuilder, stage: &PipelineStage, state: &PipelineState) {
        b.push(Inst::MbarrierWait { at: stage.full, parity: state.parity, cluster: false });
    }

    /// Prepares releases: one lane per block of the cluster arrives at that block's mbarriers.
    pub(super) fn releaser(&self, b: &mut PtxBuilder, tile: &WgmmaTile, thread: Reg) -> StageReleaser {
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, thread, 31_u32);
        let is_elected = b.compare(CmpOp::Lt, Ty::U32, lane, tile.cluster);
        let empty = AddressOperand::at(self.barriers).plus((self.stages * BARRIER) as i32);
        let barriers = match tile.cluster {
            1 => b.add(Ty::U32, self.barriers, self.stages * BARRIER),
            size => {
                let block = b.binary(PtxBinaryOp::And, Ty::B32, lane, size - 1);
                let dst = b.register(RegClass::B32);
                b.push(Inst::Mapa { dst, at: empty, block: block.into() });
                dst
            }
        };
        StageReleaser { barriers, is_elected, is_remote: tile.cluster > 1 }
    }
}

/// Releases stages, by arrivals of a consumer warp.
pub(super) struct StageReleaser {
    /// Address of the first *empty* mbarrier, in the block at which this lane arrives.
    barriers: Reg,
    /// Whether this lane arrives at all.
    is_elected: Reg,
    is_remote: bool,
}

impl StageReleaser {
    /// Releases a stage, if the predicate is true.
    pub(super) fn release(&self, b: &mut PtxBuilder, stage: Reg, when: Option<Reg>) {
        let is_elected = match when {
            Some(when) => b.binary(PtxBinaryOp::And, Ty::Pred, self.is_elected, when),
            None => self.is_elected,
        };
        let at = AddressOperand::at(b.mul_add(Ty::U32, stage, BARRIER, self.barriers));
        let arrive =
            if self.is_remote { Inst::MbarrierArriveCluster { at } } else { Inst::MbarrierArrive { at } };
        b.push_stmt(PtxStmt::Predicated(GuardPredicate::on(is_elected), arrive));
    }
}

impl PipelineState {
    /// The first stage, waiting for phases of this parity.
    pub(super) fn new(b: &mut PtxBuilder, parity: u32) -> PipelineState {
        PipelineState { stage: b.mov(RegClass::B32, 0_u32), parity: b.mov(RegClass::B32, parity) }
    }

    /// Advances to the next stage.
    pub(super) fn advance(&self, b: &mut PtxBuilder, stages: u32) {
        let next = b.add(Ty::U32, self.stage, 1_u32);
        let over = b.compare(CmpOp::Eq, Ty::U32, next, stages);
        let next = b.select(Ty::B32, over, 0_u32, next);
        b.set(self.stage, next);
        let other = b.binary(PtxBinaryOp::Xor, Ty::B32, self.parity, 1_u32);
        let parity = b.select(Ty::B32, over, PtxOperand::from(other), self.parity);
        b.set(self.parity, parity);
    }
}
