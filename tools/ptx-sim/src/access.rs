//! Memory accesses: address resolution, checks, `ld`, `st`, atomics and `cp.async`.

use super::arith;
use super::async_copies::PendingCopy;
use super::async_proxy::ProxyConflict;
use super::cluster;
use super::convert::extend;
use super::fault::{AccessKind, CheckResult, FaultCause, InLane, MemoryLocation, StepResult, malformed};
use super::gpu::SimulatedGpu;
use super::race_detector::{RaceConflict, ShadowMemory};
use super::registers::{LaneValues, lanes};
use super::scheduler::{ClusterState, LaunchState};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef};
use super::warp::Warp;
use ptx_asm::{AddressBase, AddressOperand, PtxOperand, Reg, StateSpace};
use ptx_asm::{AtomicOp, Ty};

/// Global memory during a launch.
#[derive(Debug)]
pub(super) struct GlobalMemory<'a> {
    gpu: &'a mut SimulatedGpu,
    /// Access history of each buffer.
    shadows: Vec<ShadowMemory>,
}

impl<'a> GlobalMemory<'a> {
    pub(super) fn new(gpu: &'a mut SimulatedGpu) -> GlobalMemory<'a> {
        let shadow = |i| ShadowMemory::new(gpu.buffer(i).bytes.len(), None);
        let shadows = (0..gpu.len()).map(shadow).collect();
        GlobalMemory { gpu, shadows }
    }
}

/// A resolved address: an offset in a buffer or window.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedAddress {
    pub(super) space: StateSpace,
    /// Index of the buffer for global memory, rank of the block for shared memory, index of the thread for
    /// local memory.
    pub(super) of: usize,
    /// Offset of the first byte.
    pub(super) at: usize,
}

impl LaunchState<'_> {
    /// The address that each lane accesses.
    pub(super) fn addresses(
        &self,
        warp: &Warp,
        mask: u32,
        space: StateSpace,
        place: AddressOperand,
    ) -> StepResult<LaneValues> {
        let mut addresses = match place.base {
            AddressBase::Reg(reg) => *warp.registers.get(self.program, reg, mask)?,
            AddressBase::Array(array) => {
                let layout = match space {
                    StateSpace::Shared => &self.program.shared,
                    StateSpace::Local => &self.program.local,
                    StateSpace::Global => return malformed("global memory has no arrays").in_lane(0),
                };
                let address = layout.address(array).in_lane(mask.trailing_zeros() as usize)?;
                let rank = if space == StateSpace::Shared { warp.rank } else { 0 };
                [cluster::in_cluster(rank, address.into()); 32]
            }
        };
        for address in &mut addresses {
            let sum = address.wrapping_add_signed(i64::from(place.offset));
            *address = if space == StateSpace::Global { sum } else { arith::truncate(sum, 32) };
        }
        Ok(addresses)
    }

    /// Resolves an address and checks its alignment and bounds.
    pub(super) fn locate(
        &self,
        space: StateSpace,
        who: &ThreadRef,
        address: u64,
        bytes: u32,
        align: u32,
    ) -> CheckResult<ResolvedAddress> {
        if !address.is_multiple_of(u64::from(align)) {
            return Err(Box::new(FaultCause::Misaligned { space, address, align }));
        }
        let (of, at) = match space {
            StateSpace::Global => self.global.gpu.locate(address, bytes)?,
            StateSpace::Shared => {
                let (rank, own) = cluster::parts(address);
                if rank != who.rank {
                    let nearest = format!("block {} of the cluster has windows of its own", who.rank);
                    return Err(Box::new(FaultCause::OutOfBounds { space, address, bytes, nearest }));
                }
                (rank as usize, self.program.shared.locate(own as u32, bytes)?)
            }
            StateSpace::Local => (usize::from(who.thread), self.program.local.locate(address as u32, bytes)?),
        };
        Ok(ResolvedAddress { space, of, at })
    }

    pub(super) fn location(&self, located: ResolvedAddress, at: usize) -> MemoryLocation {
        match located.space {
            StateSpace::Global => self.global.gpu.location(located.of, at),
            StateSpace::Shared => self.program.shared.location(at),
            StateSpace::Local => self.program.local.location(at),
        }
    }

    /// Checks that an access conflicts with no asynchronous operation, races with no other access, and reads
    /// no uninitialized memory.
    pub(super) fn check_access(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        bytes: u32,
        access: AccessKind,
    ) -> CheckResult<()> {
        let writes = access != AccessKind::Read;
        if located.space == StateSpace::Shared {
            self.no_barrier(shared, located, bytes)?;
            let (memory, clocks) = (&shared.block_states[located.of], &shared.clocks);
            let found = memory.proxy.check(located.at, bytes as usize, writes, who, clocks);
            found.map_err(|clash| self.proxy_fault(located, access, clash))?;
        }
        self.check_thread_accesses(shared, who, located, bytes, access)
    }

    /// Checks that an access races with no access of a thread, accesses no destination of a pending
    /// `cp.async` copy, and reads no uninitialized memory.
    pub(super) fn check_thread_accesses(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        bytes: u32,
        access: AccessKind,
    ) -> CheckResult<()> {
        let bytes = bytes as usize;
        let (at, of) = (located.at, located.of);
        let conflict = match located.space {
            StateSpace::Global => self.global.shadows[of].check(at, bytes, access, who, &shared.clocks),
            StateSpace::Shared => {
                let memory = &mut shared.block_states[of];
                if let Some((byte, owner)) = memory.copies.owner(at, bytes) {
                    return Err(Box::new(FaultCause::PendingCopy {
                        location: self.location(located, byte),
                        owner,
                    }));
                }
                memory.shadow.check(at, bytes, access, who, &shared.clocks)
            }
            StateSpace::Local => Ok(()),
        };
        conflict.map_err(|conflict| self.race(located, access, conflict))?;
        if access == AccessKind::Write {
            return Ok(());
        }
        let unwritten = match located.space {
            StateSpace::Global => self.global.gpu.buffer(of).unwritten(at, bytes),
            StateSpace::Shared => shared.block_states[of].contents.unwritten(at, bytes),
            StateSpace::Local => shared.block_states[who.rank as usize].local[of].unwritten(at, bytes),
        };
        match unwritten {
            Some(byte) => Err(Box::new(FaultCause::Uninitialized { location: self.location(located, byte) })),
            None => Ok(()),
        }
    }

    /// The fault that reports a conflict with an asynchronous operation.
    pub(super) fn proxy_fault(
        &self,
        located: ResolvedAddress,
        access: AccessKind,
        clash: ProxyConflict,
    ) -> Box<FaultCause> {
        Box::new(match clash {
            ProxyConflict::Written { at, thread } => {
                FaultCause::PendingCopy { location: self.location(located, at), owner: thread }
            }
            ProxyConflict::Read { at, by } => {
                FaultCause::PendingRead { location: self.location(located, at), by }
            }
            ProxyConflict::Race { at, other, other_access } => {
                FaultCause::Race { location: self.location(located, at), access, other, other_access }
            }
            ProxyConflict::Unfenced { at, writer } => {
                FaultCause::Unfenced { location: self.location(located, at), writer }
            }
        })
    }

    fn race(&self, located: ResolvedAddress, access: AccessKind, conflict: RaceConflict) -> Box<FaultCause> {
        let (location, other) = (self.location(located, conflict.at), conflict.other);
        Box::new(match conflict.access {
            Some(other_access) => FaultCause::Race { location, access, other, other_access },
            None => FaultCause::NotConstant { location, other },
        })
    }

    /// Records an access for later checks.
    pub(super) fn record_access(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        bytes: u32,
        access: AccessKind,
    ) {
        let (at, bytes) = (located.at, bytes as usize);
        match located.space {
            StateSpace::Global => {
                self.global.shadows[located.of].record_access(at, bytes, access, who, &shared.clocks)
            }
            StateSpace::Shared => {
                let memory = &mut shared.block_states[located.of];
                memory.shadow.record_access(at, bytes, access, who, &shared.clocks);
                if self.program.is_asynchronous && access != AccessKind::Read {
                    memory.proxy.written(at, bytes, who);
                }
            }
            StateSpace::Local => {}
        }
    }

    /// Reads up to 16 bytes.
    pub(super) fn peek(
        &self,
        shared: &ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        bytes: u32,
    ) -> [u8; 16] {
        let range = located.at..located.at + bytes as usize;
        let source = match located.space {
            StateSpace::Global => &self.global.gpu.buffer(located.of).bytes[range],
            StateSpace::Shared => &shared.block_states[located.of].contents.bytes[range],
            StateSpace::Local => &shared.block_states[who.rank as usize].local[located.of].bytes[range],
        };
        let mut data = [0; 16];
        data[..source.len()].copy_from_slice(source);
        data
    }

    /// Writes bytes.
    pub(super) fn poke(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        data: &[u8],
    ) {
        match located.space {
            StateSpace::Global => self.global.gpu.write(located.of, located.at, data),
            StateSpace::Shared => shared.block_states[located.of].contents.write(located.at, data),
            StateSpace::Local => {
                shared.block_states[who.rank as usize].local[located.of].write(located.at, data)
            }
        }
    }

    /// Counts a warp's access in the statistics.
    pub(super) fn count(
        &mut self,
        inst: usize,
        space: StateSpace,
        mask: u32,
        addresses: &LaneValues,
        bytes: u32,
    ) {
        let stats = &mut self.stats[inst];
        match space {
            StateSpace::Global => stats.global(mask, addresses, bytes),
            StateSpace::Shared => stats.shared(mask, addresses, bytes),
            StateSpace::Local => stats.bytes += u64::from(mask.count_ones() * bytes),
        }
    }
}

/// A load, store or atomic of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpAccess {
    /// Index of the instruction.
    pub(super) inst: usize,
    pub(super) mask: u32,
    pub(super) space: StateSpace,
    pub(super) ty: Ty,
    pub(super) place: AddressOperand,
}

impl WarpAccess {
    /// Size of an access to `count` elements in bytes, which is also its alignment.
    fn bytes(&self, count: usize) -> CheckResult<u32> {
        let bytes = self.ty.bytes() * count as u32;
        if !matches!(count, 1 | 2 | 4) || !matches!(bytes, 1..=16) {
            return malformed(format!("one access of {count} elements of {:?}", self.ty));
        }
        Ok(bytes)
    }

    fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize
    }
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::Load`].
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        transfer: WarpAccess,
        dsts: &[Reg],
        constant: bool,
    ) -> StepResult<()> {
        let WarpAccess { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(dsts.len()).in_lane(transfer.first())?;
        if constant && space != StateSpace::Global {
            return malformed("only global memory is constant").in_lane(transfer.first());
        }
        let access = if constant { AccessKind::Constant } else { AccessKind::Read };
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let mut values = [[0; 32]; 4];
        for lane in lanes(mask) {
            let who = warp.thread_ref(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).in_lane(lane)?;
            self.check_access(shared, &who, located, bytes, access).in_lane(lane)?;
            self.record_access(shared, &who, located, bytes, access);
            let data = self.peek(shared, &who, located, bytes);
            for (value, element) in values.iter_mut().zip(data.chunks(ty.bytes() as usize).take(dsts.len())) {
                value[lane] = extend(ty, little_endian(element));
            }
        }
        for (&dst, values) in dsts.iter().zip(&values) {
            warp.registers.set(self.program, dst, mask, values);
        }
        Ok(())
    }

    /// Executes [`ptx_asm::Inst::Store`].
    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        transfer: WarpAccess,
        srcs: &[PtxOperand],
    ) -> StepResult<()> {
        let WarpAccess { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(srcs.len()).in_lane(transfer.first())?;
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let mut data = [[0; 16]; 32];
        for (i, &src) in srcs.iter().enumerate() {
            let values = warp.registers.operand(self.program, src, mask)?;
            let size = ty.bytes() as usize;
            for lane in lanes(mask) {
                data[lane][i * size..(i + 1) * size].copy_from_slice(&values[lane].to_le_bytes()[..size]);
            }
        }
        let mut places = [None; 32];
        for lane in lanes(mask) {
            let who = warp.thread_ref(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).in_lane(lane)?;
            self.check_access(shared, &who, located, bytes, AccessKind::Write).in_lane(lane)?;
            places[lane] = Some(located);
        }
        let together = self.overlapping_stores(space, &addresses, mask, &places, &data, bytes)?;
        for lane in lanes(mask) {
            let Some(located) = places[lane] else { continue };
            let mut who = warp.thread_ref(lane);
            if together >> lane & 1 == 1 {
                who.thread = SEVERAL_THREADS;
            }
            self.record_access(shared, &who, located, bytes, AccessKind::Write);
            self.poke(shared, &who, located, &data[lane][..bytes as usize]);
        }
        Ok(())
    }

    /// The mask of lanes that store to the address of another lane; they must store the same value. Aligned
    /// stores of one size overlap only at equal addresses.
    fn overlapping_stores(
        &self,
        space: StateSpace,
        addresses: &LaneValues,
        mask: u32,
        places: &[Option<ResolvedAddress>; 32],
        data: &[[u8; 16]; 32],
        bytes: u32,
    ) -> StepResult<u32> {
        if space == StateSpace::Local {
            return Ok(0);
        }
        let mut order: smallvec::SmallVec<[usize; 32]> = lanes(mask).collect();
        if order.windows(2).all(|pair| addresses[pair[0]] < addresses[pair[1]]) {
            return Ok(0);
        }
        order.sort_by_key(|&lane| addresses[lane]);
        let mut together = 0;
        for pair in order.windows(2).filter(|pair| addresses[pair[0]] == addresses[pair[1]]) {
            let (a, b) = (pair[0], pair[1]);
            together |= 1 << a | 1 << b;
            let differs = (0..bytes as usize).find(|&i| data[a][i] != data[b][i]);
            if let (Some(byte), Some(located)) = (differs, places[b]) {
                let location = self.location(located, located.at + byte);
                return Err(Box::new(FaultCause::ConflictingLanes { location, lanes: [a as u32, b as u32] }))
                    .in_lane(b);
            }
        }
        Ok(together)
    }

    /// Executes [`ptx_asm::Inst::Atomic`].
    pub(super) fn atomic(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        transfer: WarpAccess,
        op: AtomicOp,
        dst: Option<Reg>,
        operands: &[PtxOperand],
    ) -> StepResult<()> {
        let WarpAccess { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(1).in_lane(transfer.first())?;
        if space == StateSpace::Local {
            return malformed("an atomic operation on a thread's own memory").in_lane(transfer.first());
        }
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let values: Vec<LaneValues> = operands
            .iter()
            .map(|&operand| warp.registers.operand(self.program, operand, mask))
            .collect::<StepResult<_>>()?;
        let mut before = [0; 32];
        for lane in self.some_order(mask) {
            let who = warp.thread_ref(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).in_lane(lane)?;
            self.check_access(shared, &who, located, bytes, AccessKind::Atomic).in_lane(lane)?;
            self.record_access(shared, &who, located, bytes, AccessKind::Atomic);
            let old = little_endian(&self.peek(shared, &who, located, bytes)[..bytes as usize]);
            let given: smallvec::SmallVec<[u64; 2]> = values.iter().map(|values| values[lane]).collect();
            let Some(new) = arith::atomic(op, ty, space, old, &given) else {
                return malformed(format!("no atomic {op:?} of {ty:?} with {} operands", given.len()))
                    .in_lane(lane);
            };
            self.poke(shared, &who, located, &new.to_le_bytes()[..bytes as usize]);
            before[lane] = old;
        }
        if let Some(dst) = dst {
            warp.registers.set(self.program, dst, mask, &before);
        }
        Ok(())
    }

    /// The lanes of a mask in the order in which their atomic operations take effect.
    pub(super) fn some_order(&mut self, mask: u32) -> smallvec::SmallVec<[usize; 32]> {
        let mut order: smallvec::SmallVec<[usize; 32]> = lanes(mask).collect();
        if let Some(chance) = &mut self.chance {
            chance.shuffle(&mut order);
        }
        order
    }

    /// Executes [`ptx_asm::Inst::CpAsync`].
    pub(super) fn cp_async(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        (inst, mask): (usize, u32),
        bytes: u32,
        [to, from]: [AddressOperand; 2],
        read: Option<Reg>,
    ) -> StepResult<()> {
        if !matches!(bytes, 4 | 8 | 16) {
            return malformed(format!("a copy of {bytes} bytes")).in_lane(mask.trailing_zeros() as usize);
        }
        let to = self.addresses(warp, mask, StateSpace::Shared, to)?;
        let from = self.addresses(warp, mask, StateSpace::Global, from)?;
        let read = match read {
            Some(reg) => *warp.registers.get(self.program, reg, mask)?,
            None => [u64::from(bytes); 32],
        };
        let reading = lanes(mask).filter(|&lane| read[lane] != 0).fold(0, |held, lane| held | 1 << lane);
        self.stats[inst].global(reading, &from, bytes);
        self.stats[inst].conflicts += super::stats::conflicts(mask, &to, bytes);
        for lane in lanes(mask) {
            let request =
                CopyRequest { lane, to: to[lane], from: from[lane], bytes, read: read[lane] as u32 };
            self.begin_copy(warp, shared, request).in_lane(lane)?;
        }
        Ok(())
    }

    fn begin_copy(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        request: CopyRequest,
    ) -> CheckResult<()> {
        let CopyRequest { lane, to, from, bytes, read } = request;
        if read > bytes {
            return Err(Box::new(FaultCause::CopySize { bytes, read }));
        }
        let who = warp.thread_ref(lane);
        let to = self.locate(StateSpace::Shared, &who, to, bytes, bytes)?;
        self.check_access(shared, &who, to, bytes, AccessKind::Write)?;
        let mut copy = PendingCopy { to: to.at, bytes, data: [0; 16], from: None };
        // A copy that reads no bytes may have any source address.
        if read > 0 {
            let from = self.locate(StateSpace::Global, &who, from, read, bytes)?;
            self.check_access(shared, &who, from, read, AccessKind::Read)?;
            self.record_access(shared, &who, from, read, AccessKind::Read);
            copy.data = self.peek(shared, &who, from, read);
            copy.from = Some((from, read));
        }
        shared.block_states[who.rank as usize].copies.begin(u32::from(who.thread), copy);
        Ok(())
    }

    /// Executes [`ptx_asm::Inst::CpAsyncWait`].
    pub(super) fn cp_async_wait(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        mask: u32,
        left: u32,
    ) -> StepResult<()> {
        for lane in lanes(mask) {
            let who = warp.thread_ref(lane);
            for copy in shared.block_states[who.rank as usize].copies.finish(u32::from(who.thread), left) {
                self.finish_copy(shared, &who, copy).in_lane(lane)?;
            }
        }
        Ok(())
    }

    fn finish_copy(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        copy: PendingCopy,
    ) -> CheckResult<()> {
        if let Some((from, read)) = copy.from
            && self.peek(shared, who, from, read) != copy.data
        {
            return Err(Box::new(FaultCause::SourceChanged { location: self.location(from, from.at) }));
        }
        let to = ResolvedAddress { space: StateSpace::Shared, of: who.rank as usize, at: copy.to };
        self.record_access(shared, who, to, copy.bytes, AccessKind::Write);
        self.poke(shared, who, to, &copy.data[..copy.bytes as usize]);
        Ok(())
    }
}

/// The copy of a lane.
struct CopyRequest {
    lane: usize,
    to: u64,
    from: u64,
    bytes: u32,
    read: u32,
}

/// Decodes up to 8 bytes.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
