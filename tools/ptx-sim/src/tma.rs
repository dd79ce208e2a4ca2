//! TMA loads and stores: asynchronous copies of tiles between global and shared memory.
//!
//! A load completes at any time after its issue, by completing its transaction bytes on an mbarrier. The
//! scheduler picks the time: at random, or as late as possible. A store completes at the end of its cluster.
//! Sources are read at the issue. No program can observe this, because changing a source before the
//! completion is a fault.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::access::ResolvedAddress;
use super::fault::{AccessKind, Accessor, CheckResult, FaultCause, InLane, StepResult};
use super::registers::lanes;
use super::scheduler::{ClusterState, LaunchState};
use super::tensor_map::{SimTensorMap, Swizzle, TileSegment, map_at};
use super::vector_clocks::{ThreadRef, Timestamp, VectorClock};
use super::warp::Warp;
use ptx_asm::{AddressOperand, PtxOperand, Reg, StateSpace};

/// A TMA load in flight, into the shared memory of one block.
#[derive(Debug)]
pub(super) struct PendingTmaLoad {
    pub(super) issuer: ThreadRef,
    /// Rank of the destination block in the cluster.
    rank: usize,
    /// Offset of the destination in the block's shared memory.
    to: usize,
    data: TileData,
    /// Offset of the mbarrier in the destination block's shared memory.
    barrier: usize,
    /// Vector clock of the issuing thread at the issue.
    clock: VectorClock,
}

/// The content of a tile.
#[derive(Clone, Debug)]
struct TileData {
    /// Bytes in the order of shared memory, swizzled.
    bytes: Rc<[u8]>,
    /// Source ranges in global memory, with their lengths and contents.
    from: Rc<[(ResolvedAddress, u32, [u8; 16])]>,
}

/// TMA stores in flight, by rank of the block and thread.
#[derive(Debug, Default)]
pub(super) struct PendingTmaStores(BTreeMap<(u32, u16), StoreQueue>);

#[derive(Debug, Default)]
struct StoreQueue {
    /// Stores since the last commit.
    open: Vec<PendingTmaStore>,
    /// Committed groups, and whether the thread knows that their sources were read.
    groups: VecDeque<(Vec<PendingTmaStore>, bool)>,
    /// Timestamp of the latest wait, in a vector-clock component of its own.
    read: Option<Timestamp>,
}

#[derive(Debug)]
struct PendingTmaStore {
    /// Offsets of the source chunks in shared memory.
    chunks: Vec<usize>,
    /// Destination ranges in global memory, with their lengths and contents.
    writes: Vec<(ResolvedAddress, u32, [u8; 16])>,
}

/// The tile that a lane copies.
struct TileRequest<'m> {
    map: &'m SimTensorMap,
    at: Vec<i32>,
    /// Address of the tile in shared memory.
    shared: ResolvedAddress,
}

impl LaunchState<'_> {
    /// Executes [`ptx_asm::Inst::TmaLoad`].
    pub(super) fn tma_load(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        (inst, mask): (usize, u32),
        (map, at): (Reg, &[PtxOperand]),
        [to, barrier]: [AddressOperand; 2],
        multicast: Option<Reg>,
    ) -> StepResult<()> {
        let barriers = self.addresses(warp, mask, StateSpace::Shared, barrier)?;
        let blocks = match multicast {
            Some(reg) => *warp.registers.get(self.program, reg, mask)?,
            None => [1 << warp.rank; 32],
        };
        let requests: Vec<_> = self
            .requests(warp, mask, (map, at), to)?
            .into_iter()
            .map(|(lane, request)| {
                let order = (request.map.bytes(), request.map.swizzle, request.shared.at);
                (lane, order, request.shared, request.segments())
            })
            .collect();
        for (lane, order, to, segments) in requests {
            self.stats[inst].tile(&segments);
            let who = warp.thread_ref(lane);
            let barrier = self.locate(StateSpace::Shared, &who, barriers[lane], 8, 8).in_lane(lane)?;
            if blocks[lane] == 0 || blocks[lane] >> self.cluster != 0 {
                let what = format!("blocks {:#b} of a cluster of {}", blocks[lane], self.cluster);
                return Err(Box::new(FaultCause::InvalidTile(what))).in_lane(lane);
            }
            let data = self.read_tile(shared, &who, order, &segments).in_lane(lane)?;
            for of in (0..self.cluster as usize).filter(|rank| blocks[lane] >> rank & 1 == 1) {
                let places = [ResolvedAddress { of, ..to }, ResolvedAddress { of, ..barrier }];
                self.begin_load(shared, &who, places, data.clone()).in_lane(lane)?;
            }
        }
        Ok(())
    }

    /// The tile that each lane copies.
    fn requests(
        &self,
        warp: &Warp,
        mask: u32,
        (map, at): (Reg, &[PtxOperand]),
        place: AddressOperand,
    ) -> StepResult<Vec<(usize, TileRequest<'_>)>> {
        let maps = *warp.registers.get(self.program, map, mask)?;
        let axes: Vec<_> =
            at.iter().map(|&at| warp.registers.operand(self.program, at, mask)).collect::<StepResult<_>>()?;
        let addresses = self.addresses(warp, mask, StateSpace::Shared, place)?;
        let of_lane = |lane: usize| {
            let map = map_at(self.maps, maps[lane])?;
            let at: Vec<i32> = axes.iter().map(|values| values[lane] as i32).collect();
            if at.len() != map.tile.len() {
                let what = format!("{} coordinates of a tensor of {} axes", at.len(), map.tile.len());
                return Err(Box::new(FaultCause::InvalidTile(what)));
            }
            let who = warp.thread_ref(lane);
            let (bytes, align) = (map.bytes() as u32, map.swizzle.align());
            let shared = self.locate(StateSpace::Shared, &who, addresses[lane], bytes, align)?;
            Ok(TileRequest { map, at, shared })
        };
        lanes(mask).map(|lane| Ok((lane, of_lane(lane).in_lane(lane)?))).collect()
    }

    /// Reads a tile from global memory, in the order of shared memory.
    fn read_tile(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        (bytes, swizzle, to): (usize, Swizzle, usize),
        segments: &[TileSegment],
    ) -> CheckResult<TileData> {
        let (mut data, mut from) = (vec![0; bytes], Vec::with_capacity(segments.len()));
        for segment in segments {
            let located = self.locate(StateSpace::Global, who, segment.global, segment.bytes, 1)?;
            self.check_access(shared, who, located, segment.bytes, AccessKind::Read)?;
            self.record_access(shared, who, located, segment.bytes, AccessKind::Read);
            let found = self.peek(shared, who, located, segment.bytes);
            let at = swizzle.apply(to + segment.shared) - to;
            data[at..at + segment.bytes as usize].copy_from_slice(&found[..segment.bytes as usize]);
            from.push((located, segment.bytes, found));
        }
        Ok(TileData { bytes: data.into(), from: from.into() })
    }

    /// Issues a load into the shared memory of one block.
    fn begin_load(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        [to, barrier]: [ResolvedAddress; 2],
        data: TileData,
    ) -> CheckResult<()> {
        self.fenced_barrier(shared, who, barrier)?;
        for at in (to.at..to.at + data.bytes.len()).step_by(16) {
            self.check_async_proxy(shared, who, ResolvedAddress { at, ..to }, AccessKind::Write)?;
        }
        let rank = to.of;
        shared.block_states[rank].proxy.begin_write(to.at, data.bytes.len(), who.thread);
        let clock = shared.clocks.known(who);
        let load = PendingTmaLoad { issuer: *who, rank, to: to.at, data, barrier: barrier.at, clock };
        shared.tma_loads.push(load);
        Ok(())
    }

    /// Checks that the async proxy may access 16 bytes of shared memory now.
    pub(super) fn check_async_proxy(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        access: AccessKind,
    ) -> CheckResult<()> {
        let fenced = shared.block_states[located.of].proxy.fenced(located.at, 16);
        fenced.map_err(|clash| self.proxy_fault(located, access, clash))?;
        self.check_access(shared, who, located, 16, access)
    }

    /// Completes a load: writes shared memory and completes the bytes on the mbarrier.
    pub(super) fn finish_load(&mut self, shared: &mut ClusterState, load: PendingTmaLoad) -> CheckResult<()> {
        let PendingTmaLoad { issuer, rank, to, data, barrier, clock } = load;
        for &(located, bytes, was) in &data.from[..] {
            if self.peek(shared, &issuer, located, bytes) != was {
                return Err(Box::new(FaultCause::SourceChanged {
                    location: self.location(located, located.at),
                }));
            }
        }
        let memory = &mut shared.block_states[rank];
        let located = ResolvedAddress { space: StateSpace::Shared, of: rank, at: barrier };
        let Some(found) = shared.barriers.get_mut(&(rank as u32, barrier)) else {
            return Err(Box::new(FaultCause::NoBarrier { location: self.location(located, barrier) }));
        };
        let moment = found.phase();
        memory.contents.write(to, &data.bytes);
        memory.proxy.end_write(to, data.bytes.len(), moment);
        let what =
            format!("any thread waits for a TMA load of thread {} of block {}", issuer.thread, issuer.block);
        shared.expects[rank].insert(moment.column, (moment.time, what));
        found.receive(data.bytes.len(), &clock).or_else(|what| self.broken(located, what))
    }

    /// Executes [`ptx_asm::Inst::TmaStore`].
    pub(super) fn tma_store(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        (inst, mask): (usize, u32),
        (map, at): (Reg, &[PtxOperand]),
        from: AddressOperand,
    ) -> StepResult<()> {
        let requests: Vec<_> = self
            .requests(warp, mask, (map, at), from)?
            .into_iter()
            .map(|(lane, request)| (lane, request.map.swizzle, request.shared, request.segments()))
            .collect();
        for (lane, swizzle, from, segments) in requests {
            self.stats[inst].tile(&segments);
            let who = warp.thread_ref(lane);
            self.begin_store(shared, &who, (swizzle, from), &segments).in_lane(lane)?;
        }
        Ok(())
    }

    fn begin_store(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        (swizzle, from): (Swizzle, ResolvedAddress),
        segments: &[TileSegment],
    ) -> CheckResult<()> {
        let (mut chunks, mut writes) = (Vec::new(), Vec::with_capacity(segments.len()));
        for segment in segments {
            let at = swizzle.apply(from.at + segment.shared);
            let source = ResolvedAddress { at, ..from };
            let fenced = shared.block_states[from.of].proxy.fenced(at, segment.bytes as usize);
            fenced.map_err(|clash| self.proxy_fault(source, AccessKind::Read, clash))?;
            for (at, bytes) in parts(at, segment.bytes) {
                self.check_access(shared, who, ResolvedAddress { at, ..from }, bytes, AccessKind::Read)?;
            }
            let data = self.peek(shared, who, source, segment.bytes);
            let located = self.locate(StateSpace::Global, who, segment.global, segment.bytes, 1)?;
            self.check_access(shared, who, located, segment.bytes, AccessKind::Write)?;
            self.record_access(shared, who, located, segment.bytes, AccessKind::Write);
            shared.block_states[from.of].proxy.begin_read(at, 1, reader(who));
            chunks.push(at);
            writes.push((located, segment.bytes, data));
        }
        shared.stores.queue(who).open.push(PendingTmaStore { chunks, writes });
        Ok(())
    }

    /// Executes [`ptx_asm::Inst::TmaStoreCommit`].
    pub(super) fn commit_stores(&self, warp: &Warp, shared: &mut ClusterState, mask: u32) {
        for lane in lanes(mask) {
            let queue = shared.stores.queue(&warp.thread_ref(lane));
            let group = std::mem::take(&mut queue.open);
            queue.groups.push_back((group, false));
        }
    }

    /// Executes [`ptx_asm::Inst::TmaStoreWait`].
    pub(super) fn wait_for_stores(&self, warp: &Warp, shared: &mut ClusterState, mask: u32, left: u32) {
        for lane in lanes(mask) {
            self.stores_read(shared, &warp.thread_ref(lane), left);
        }
    }

    /// Records that the thread knows that the sources of all but its latest `left` groups of stores have been
    /// read.
    fn stores_read(&self, shared: &mut ClusterState, who: &ThreadRef, left: u32) {
        let ClusterState { stores, clocks, block_states, .. } = shared;
        let queue = stores.queue(who);
        let over = queue.groups.len().saturating_sub(left as usize);
        let groups: Vec<_> = queue.groups.iter_mut().take(over).filter(|(_, read)| !read).collect();
        if groups.is_empty() {
            return;
        }
        let moment = queue.read.get_or_insert_with(|| Timestamp { column: clocks.column(), time: 0 });
        moment.time += 1;
        for (stores, read) in groups {
            *read = true;
            for &at in stores.iter().flat_map(|store| &store.chunks) {
                block_states[who.rank as usize].proxy.end_read(at, 1, reader(who), *moment);
            }
        }
        clocks.note(who, *moment);
    }

    fn finish_store(&mut self, shared: &mut ClusterState, who: &ThreadRef, store: PendingTmaStore) {
        for (located, bytes, data) in store.writes {
            self.poke(shared, who, located, &data[..bytes as usize]);
        }
    }

    /// Writes the stores of a cluster to global memory, at the end of the cluster.
    pub(super) fn finish_stores(&mut self, shared: &mut ClusterState, warps: &[Warp]) {
        for warp in warps {
            for lane in lanes(warp.present) {
                let who = warp.thread_ref(lane);
                let Some(queue) = shared.stores.0.remove(&(who.rank, who.thread)) else { continue };
                for store in queue.groups.into_iter().flat_map(|(stores, _)| stores) {
                    self.finish_store(shared, &who, store);
                }
            }
        }
    }
}

impl TileRequest<'_> {
    fn segments(&self) -> Vec<TileSegment> {
        self.map.segments(&self.at)
    }
}

/// Splits a range of shared memory into aligned ranges of 1, 2, 4, 8 or 16 bytes.
fn parts(at: usize, bytes: u32) -> impl Iterator<Item = (usize, u32)> {
    let end = at + bytes as usize;
    std::iter::successors(Some((at, 0)), move |&(at, bytes)| {
        let at = at + bytes as usize;
        let most = 1_usize << (at | 16).trailing_zeros();
        let size = (0..=4).rev().map(|bits| 1 << bits).find(|&size| size <= most && at + size <= end)?;
        Some((at, size as u32))
    })
    .skip(1)
}

fn reader(who: &ThreadRef) -> Accessor {
    Accessor::Tma(u32::from(who.thread))
}

impl PendingTmaStores {
    fn queue(&mut self, who: &ThreadRef) -> &mut StoreQueue {
        self.0.entry((who.rank, who.thread)).or_default()
    }

    /// Checks that the thread knows that the sources of all its stores have been read. The error is a phrase
    /// that follows "the end comes before".
    pub(super) fn may_end(&self) -> Result<(), String> {
        let late = |queue: &StoreQueue| !queue.open.is_empty() || queue.groups.iter().any(|(_, read)| !read);
        match self.0.iter().find(|(_, queue)| late(queue)) {
            Some(((_, thread), _)) => Err(format!("thread {thread} waits for its TMA stores")),
            None => Ok(()),
        }
    }
}
