//! Copies of tiles between global and shared memory.
//!
//! A copy into shared memory is complete when its bytes complete on a barrier, at any time after it began: the scheduler says when, by chance or as
//! late as it can, when nobody can go on without. One into global memory is complete when its block has ended.
//! What copies read is read when they begin, since nobody may change it meanwhile.

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

/// A copy into the memory of one block that is under way.
#[derive(Debug)]
pub(super) struct PendingTmaLoad {
    pub(super) issuer: ThreadRef,
    /// The block of the cluster.
    rank: usize,
    /// Where to, and what.
    to: usize,
    data: TileData,
    /// The barrier's address in that block.
    barrier: usize,
    /// What the issuer knew.
    clock: VectorClock,
}

/// What a tile consists of.
#[derive(Clone, Debug)]
struct TileData {
    /// As it will lie in shared memory.
    bytes: Rc<[u8]>,
    /// Where it comes from, and what was there.
    from: Rc<[(ResolvedAddress, u32, [u8; 16])]>,
}

/// Copies into global memory that are under way, by block of the cluster and thread.
#[derive(Debug, Default)]
pub(super) struct PendingTmaStores(BTreeMap<(u32, u16), StoreQueue>);

#[derive(Debug, Default)]
struct StoreQueue {
    /// Copies that are in no group yet.
    open: Vec<PendingTmaStore>,
    /// Groups, and whether their sources have been read.
    groups: VecDeque<(Vec<PendingTmaStore>, bool)>,
    /// Counts groups that were read.
    read: Option<Timestamp>,
}

#[derive(Debug)]
struct PendingTmaStore {
    /// What it reads of shared memory.
    chunks: Vec<usize>,
    /// Where to in global memory, and what.
    writes: Vec<(ResolvedAddress, u32, [u8; 16])>,
}

/// What a lane asks for.
struct TileRequest<'m> {
    map: &'m SimTensorMap,
    at: Vec<i32>,
    /// Where the tile is in the block's memory.
    shared: ResolvedAddress,
}

impl LaunchState<'_> {
    /// [`ptx_asm::Inst::TmaLoad`].
    pub(super) fn load_tile(
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
                (lane, order, request.shared, request.pieces())
            })
            .collect();
        for (lane, order, to, pieces) in requests {
            self.stats[inst].tile(&pieces);
            let who = warp.thread_ref(lane);
            let barrier = self.locate(StateSpace::Shared, &who, barriers[lane], 8, 8).in_lane(lane)?;
            if blocks[lane] == 0 || blocks[lane] >> self.cluster != 0 {
                let what = format!("blocks {:#b} of a cluster of {}", blocks[lane], self.cluster);
                return Err(Box::new(FaultCause::InvalidTile(what))).in_lane(lane);
            }
            let data = self.read_tile(shared, &who, order, &pieces).in_lane(lane)?;
            for of in (0..self.cluster as usize).filter(|rank| blocks[lane] >> rank & 1 == 1) {
                let places = [ResolvedAddress { of, ..to }, ResolvedAddress { of, ..barrier }];
                self.begin_load(shared, &who, places, data.clone()).in_lane(lane)?;
            }
        }
        Ok(())
    }

    /// What each lane asks for.
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

    /// The bytes of a tile, as they will lie in shared memory, and where they come from.
    fn read_tile(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        (bytes, swizzle, to): (usize, Swizzle, usize),
        pieces: &[TileSegment],
    ) -> CheckResult<TileData> {
        let (mut data, mut from) = (vec![0; bytes], Vec::with_capacity(pieces.len()));
        for piece in pieces {
            let located = self.locate(StateSpace::Global, who, piece.global, piece.bytes, 1)?;
            self.allowed(shared, who, located, piece.bytes, AccessKind::Read)?;
            self.mark(shared, who, located, piece.bytes, AccessKind::Read);
            let found = self.peek(shared, who, located, piece.bytes);
            let at = swizzle.apply(to + piece.shared) - to;
            data[at..at + piece.bytes as usize].copy_from_slice(&found[..piece.bytes as usize]);
            from.push((located, piece.bytes, found));
        }
        Ok(TileData { bytes: data.into(), from: from.into() })
    }

    /// Begins a copy into the memory of one block.
    fn begin_load(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        [to, barrier]: [ResolvedAddress; 2],
        data: TileData,
    ) -> CheckResult<()> {
        self.fenced_barrier(shared, who, barrier)?;
        for at in (to.at..to.at + data.bytes.len()).step_by(16) {
            self.allowed_behind(shared, who, ResolvedAddress { at, ..to }, AccessKind::Write)?;
        }
        let rank = to.of;
        shared.block_states[rank].proxy.begin_write(to.at, data.bytes.len(), who.thread);
        let clock = shared.clocks.known(who);
        let load = PendingTmaLoad { issuer: *who, rank, to: to.at, data, barrier: barrier.at, clock };
        shared.tiles.push(load);
        Ok(())
    }

    /// Whether copies and products may touch 16 bytes of shared memory now.
    pub(super) fn allowed_behind(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        access: AccessKind,
    ) -> CheckResult<()> {
        let fenced = shared.block_states[located.of].proxy.fenced(located.at, 16);
        fenced.map_err(|clash| self.clashes(located, access, clash))?;
        self.allowed(shared, who, located, 16, access)
    }

    /// A copy into shared memory becomes complete.
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
            format!("anybody waits for a tile copy of thread {} of block {}", issuer.thread, issuer.block);
        shared.expects[rank].insert(moment.column, (moment.time, what));
        found.receive(data.bytes.len(), &clock).or_else(|what| self.broken(located, what))
    }

    /// [`ptx_asm::Inst::TmaStore`].
    pub(super) fn store_tile(
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
            .map(|(lane, request)| (lane, request.map.swizzle, request.shared, request.pieces()))
            .collect();
        for (lane, swizzle, from, pieces) in requests {
            self.stats[inst].tile(&pieces);
            let who = warp.thread_ref(lane);
            self.begin_store(shared, &who, (swizzle, from), &pieces).in_lane(lane)?;
        }
        Ok(())
    }

    fn begin_store(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        (swizzle, from): (Swizzle, ResolvedAddress),
        pieces: &[TileSegment],
    ) -> CheckResult<()> {
        let (mut chunks, mut writes) = (Vec::new(), Vec::with_capacity(pieces.len()));
        for piece in pieces {
            let at = swizzle.apply(from.at + piece.shared);
            let source = ResolvedAddress { at, ..from };
            let fenced = shared.block_states[from.of].proxy.fenced(at, piece.bytes as usize);
            fenced.map_err(|clash| self.clashes(source, AccessKind::Read, clash))?;
            for (at, bytes) in parts(at, piece.bytes) {
                self.allowed(shared, who, ResolvedAddress { at, ..from }, bytes, AccessKind::Read)?;
            }
            let data = self.peek(shared, who, source, piece.bytes);
            let located = self.locate(StateSpace::Global, who, piece.global, piece.bytes, 1)?;
            self.allowed(shared, who, located, piece.bytes, AccessKind::Write)?;
            self.mark(shared, who, located, piece.bytes, AccessKind::Write);
            shared.block_states[from.of].proxy.begin_read(at, 1, reader(who));
            chunks.push(at);
            writes.push((located, piece.bytes, data));
        }
        shared.stores.queue(who).open.push(PendingTmaStore { chunks, writes });
        Ok(())
    }

    /// [`ptx_asm::Inst::TmaStoreCommit`].
    pub(super) fn commit_stores(&self, warp: &Warp, shared: &mut ClusterState, mask: u32) {
        for lane in lanes(mask) {
            let queue = shared.stores.queue(&warp.thread_ref(lane));
            let group = std::mem::take(&mut queue.open);
            queue.groups.push_back((group, false));
        }
    }

    /// [`ptx_asm::Inst::TmaStoreWait`].
    pub(super) fn wait_for_stores(&self, warp: &Warp, shared: &mut ClusterState, mask: u32, left: u32) {
        for lane in lanes(mask) {
            self.stores_read(shared, &warp.thread_ref(lane), left);
        }
    }

    /// The sources of all but the last groups have been read, which the thread knows.
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

    /// What was read before the end of its block is written after it.
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
    fn pieces(&self) -> Vec<TileSegment> {
        self.map.pieces(&self.at)
    }
}

/// Bytes of shared memory as aligned powers of two.
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

    /// Whether all that is read from shared memory has been; what is missing, in words.
    pub(super) fn may_end(&self) -> Result<(), String> {
        let late = |queue: &StoreQueue| !queue.open.is_empty() || queue.groups.iter().any(|(_, read)| !read);
        match self.0.iter().find(|(_, queue)| late(queue)) {
            Some(((_, thread), _)) => Err(format!("thread {thread} waits for its tile stores")),
            None => Ok(()),
        }
    }
}
