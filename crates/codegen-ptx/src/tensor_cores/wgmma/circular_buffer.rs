//! Slots for stages, which are filled and emptied in turn, and their barriers.
//!
//! A barrier is a phase that ends when all have arrived, and all bytes that were announced. Waiting is for the end of a phase, of which only the parity is said:
//! the rounds of a [`Cursor`] through the ring alternate.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxOperand, PtxStmt, Reg, RegClass,
    StateSpace, Ty,
};

use super::tile::{WARPS, WgmmaTile};

/// Bytes of a barrier.
const BARRIER: u32 = 8;
/// What the order of chunks repeats after.
const ALIGN: u32 = 1024;

/// The ring.
pub(super) struct CircularBuffer {
    /// The address of the first slot.
    pub(super) window: Reg,
    /// Bytes of a slot.
    bytes: u32,
    /// The address of the first barrier: those of full slots, then those of empty ones.
    barriers: Reg,
    stages: u32,
}

/// A place in the ring.
pub(super) struct PipelineState {
    /// The number of the slot.
    pub(super) stage: Reg,
    /// The parity of the phase that is waited for.
    parity: Reg,
}

/// The addresses of a slot and its barriers.
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

    /// Makes the barriers; nobody goes on before they are made.
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

    /// The slot at a place.
    pub(super) fn stage(&self, b: &mut PtxBuilder, cursor: &PipelineState) -> PipelineStage {
        let window = b.mul_add(Ty::U32, cursor.stage, self.bytes, self.window);
        let full = AddressOperand::at(b.mul_add(Ty::U32, cursor.stage, BARRIER, self.barriers));
        PipelineStage { window, full, empty: full.plus((self.stages * BARRIER) as i32) }
    }

    /// Waits until all who multiply have done with what was in the slot.
    pub(super) fn wait_empty(
        &self,
        b: &mut PtxBuilder,
        tile: &WgmmaTile,
        stage: &PipelineStage,
        cursor: &PipelineState,
    ) {
        b.push(Inst::MbarrierWait { at: stage.empty, parity: cursor.parity, cluster: tile.cluster > 1 });
    }

    /// Says how many bytes a slot will get.
    pub(super) fn expect(&self, b: &mut PtxBuilder, stage: &PipelineStage, bytes: u32) {
        b.push(Inst::MbarrierArriveExpectTx { at: stage.full, bytes });
    }

    /// Waits until they are there.
    pub(super) fn wait_full(&self, b: &mut PtxBuilder, stage: &PipelineStage, cursor: &PipelineState) {
        b.push(Inst::MbarrierWait { at: stage.full, parity: cursor.parity, cluster: false });
    }

    /// What a warp needs to say that a slot is empty: a lane tells each block of the cluster.
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

/// How a thread tells that slots are empty.
pub(super) struct StageReleaser {
    /// The first of the barriers of empty slots, in the block that this lane tells.
    barriers: Reg,
    /// Whether this lane tells anyone.
    is_elected: Reg,
    is_remote: bool,
}

impl StageReleaser {
    /// Tells that this warp has done with a slot, if a predicate holds.
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
    /// At the first slot, where phases of that parity are waited for.
    pub(super) fn new(b: &mut PtxBuilder, parity: u32) -> PipelineState {
        PipelineState { stage: b.mov(RegClass::B32, 0_u32), parity: b.mov(RegClass::B32, parity) }
    }

    /// Goes on to the next slot.
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
