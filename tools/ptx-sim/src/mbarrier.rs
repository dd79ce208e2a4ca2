//! Mbarriers: a phase completes when enough threads have arrived and all expected transaction bytes are
//! copied.

use std::collections::BTreeMap;

use super::access::ResolvedAddress;
use super::fault::{AccessKind, Accessor, CheckResult, FaultCause, InLane, StepResult, malformed};
use super::race_detector::AccessSet;
use super::registers::lanes;
use super::scheduler::{ClusterState, LaunchState};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, Timestamp, VectorClock, VectorClocks, advance, join};
use super::warp::{MbarrierPhase, StepEvent, Warp};
use ptx_asm::{AddressOperand, Reg, StateSpace};

/// The mbarriers of a cluster, by rank of the block and offset in its shared memory.
pub(super) type Mbarriers = BTreeMap<(u32, usize), Mbarrier>;

/// State of an mbarrier.
#[derive(Debug)]
pub(super) struct Mbarrier {
    /// Number of arrivals that complete a phase.
    count: u32,
    /// Number of arrivals that the current phase lacks.
    pending: u32,
    /// Transaction bytes that the current phase still expects; negative while bytes have arrived that no
    /// thread has announced yet.
    bytes: i64,
    /// Number of completed phases.
    phases: u32,
    /// Vector-clock component that counts completed phases.
    column: usize,
    /// Joined vector clocks of the arrivals at the current phase.
    gathered: VectorClock,
    /// Joined vector clocks of the arrivals at all completed phases.
    complete: VectorClock,
    /// The thread that initialized the mbarrier.
    made: AccessSet,
    /// Rank of the initializing thread's block in the cluster.
    rank: u32,
    /// Whether the initializing thread has executed [`ptx_asm::Inst::FenceMbarrierInit`] since.
    fenced: bool,
    /// Whether threads of other blocks have arrived.
    remote: bool,
}

/// Size and alignment of an mbarrier in bytes.
const BYTES: u32 = 8;

/// Maximum number of arrivals, and of transaction bytes, of a phase.
const MAX_COUNT: i64 = (1 << 20) - 1;

impl Mbarrier {
    /// Whether the phase of this parity is complete.
    pub(super) fn has_passed(&self, parity: u32) -> bool {
        self.phases & 1 != parity
    }

    /// Describes the missing arrivals and bytes of the current phase.
    pub(super) fn state(&self) -> String {
        format!("phase {} lacks {} arrivals and {} bytes", self.phases, self.pending, self.bytes)
    }

    /// The timestamp that threads acquire by waiting for the current phase.
    pub(super) fn phase(&self) -> Timestamp {
        Timestamp { column: self.column, time: self.phases + 1 }
    }

    /// Adds `bytes` to the expected transaction bytes, then counts an arrival with the thread's vector clock.
    fn arrive(&mut self, bytes: u32, clock: &[u32]) -> Result<(), String> {
        self.bytes += i64::from(bytes);
        if self.pending == 0 {
            return Err(format!("expected {} arrivals in phase {}, found more", self.count, self.phases));
        }
        if self.bytes > MAX_COUNT {
            return Err(format!("{} bytes are expected, and at most {MAX_COUNT} counted", self.bytes));
        }
        self.pending -= 1;
        join(&mut self.gathered, clock);
        self.complete_phase()
    }

    /// Counts copied bytes, with the vector clock of the thread that issued the copy.
    pub(super) fn receive(&mut self, bytes: usize, clock: &[u32]) -> Result<(), String> {
        self.bytes -= bytes as i64;
        if self.bytes < -MAX_COUNT {
            return Err(format!("{} bytes came, and at most {MAX_COUNT} are counted", -self.bytes));
        }
        join(&mut self.gathered, clock);
        self.complete_phase()
    }

    fn complete_phase(&mut self) -> Result<(), String> {
        if self.pending > 0 || self.bytes > 0 {
            return Ok(());
        }
        if self.bytes < 0 {
            return Err(format!("{} bytes came that phase {} did not expect", -self.bytes, self.phases));
        }
        let moment = self.phase();
        self.phases += 1;
        self.pending = self.count;
        join(&mut self.complete, &std::mem::take(&mut self.gathered));
        advance(&mut self.complete, moment);
        Ok(())
    }

    /// Checks that the initialization is ordered before an access by this thread.
    fn known(&self, who: &ThreadRef, clocks: &VectorClocks) -> Result<(), Accessor> {
        self.made.unordered(self.rank, who, clocks).map_or(Ok(()), Err)
    }
}

impl LaunchState<'_> {
    /// The mbarriers that lanes address, in the block's own window or the cluster's.
    fn barriers(
        &self,
        warp: &Warp,
        mask: u32,
        at: AddressOperand,
    ) -> StepResult<[Option<ResolvedAddress>; 32]> {
        let addresses = self.addresses(warp, mask, StateSpace::Shared, at)?;
        let mut found = [None; 32];
        for lane in lanes(mask) {
            let mut who = warp.thread_ref(lane);
            who.rank = super::cluster::parts(addresses[lane]).0;
            let located = self.locate(StateSpace::Shared, &who, addresses[lane], BYTES, BYTES);
            found[lane] = Some(located.in_lane(lane)?);
        }
        Ok(found)
    }

    /// The mbarrier at an address, whose initialization must be ordered before the access.
    pub(super) fn barrier_at<'s>(
        &self,
        shared: &'s mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
    ) -> CheckResult<&'s mut Mbarrier> {
        let Some(barrier) = shared.barriers.get_mut(&(located.of as u32, located.at)) else {
            return Err(Box::new(FaultCause::NoBarrier { location: self.location(located, located.at) }));
        };
        if let Err(other) = barrier.known(who, &shared.clocks) {
            let (location, access, other_access) =
                (self.location(located, located.at), AccessKind::Atomic, AccessKind::Write);
            return Err(Box::new(FaultCause::Race { location, access, other, other_access }));
        }
        Ok(barrier)
    }

    /// Checks that the mbarrier is visible to TMA and to other blocks.
    pub(super) fn fenced_barrier(
        &self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
    ) -> CheckResult<()> {
        if self.barrier_at(shared, who, located)?.fenced {
            return Ok(());
        }
        self.broken(located, "its initialization was not fenced for TMA and other blocks")
    }

    pub(super) fn broken<T>(&self, located: ResolvedAddress, what: impl Into<String>) -> CheckResult<T> {
        Err(Box::new(FaultCause::Barrier { location: self.location(located, located.at), what: what.into() }))
    }

    /// Checks that a range of shared memory overlaps no mbarrier.
    pub(super) fn no_barrier(
        &self,
        shared: &ClusterState,
        located: ResolvedAddress,
        bytes: u32,
    ) -> CheckResult<()> {
        let rank = located.of as u32;
        let (first, end) = (located.at.saturating_sub(BYTES as usize - 1), located.at + bytes as usize);
        match shared.barriers.range((rank, first)..(rank, end)).next() {
            None => Ok(()),
            Some((&(_, at), _)) => {
                Err(Box::new(FaultCause::IsBarrier { location: self.location(located, at.max(located.at)) }))
            }
        }
    }

    /// Executes [`ptx_asm::Inst::MbarrierInit`].
    pub(super) fn init_barrier(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        mask: u32,
        at: AddressOperand,
        count: u32,
    ) -> StepResult<()> {
        let places = self.barriers(warp, mask, at)?;
        for lane in lanes(mask) {
            let Some(located) = places[lane] else { continue };
            let who = warp.thread_ref(lane);
            self.init_one(shared, &who, located, count).in_lane(lane)?;
        }
        Ok(())
    }

    fn init_one(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        count: u32,
    ) -> CheckResult<()> {
        if !(1..=MAX_COUNT as u32).contains(&count) {
            return malformed(format!("a barrier for {count} arrivals"));
        }
        if shared.barriers.contains_key(&(located.of as u32, located.at)) {
            return self.broken(located, "it is initialized a second time");
        }
        self.check_access(shared, who, located, BYTES, AccessKind::Write)?;
        let (made, column) = (AccessSet::one(who, &shared.clocks), shared.clocks.column());
        let barrier = Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phases: 0,
            column,
            gathered: VectorClock::new(),
            complete: VectorClock::new(),
            made,
            rank: who.rank,
            fenced: false,
            remote: false,
        };
        shared.barriers.insert((located.of as u32, located.at), barrier);
        Ok(())
    }

    /// Executes [`ptx_asm::Inst::FenceMbarrierInit`].
    pub(super) fn fence_barriers(&self, warp: &Warp, shared: &mut ClusterState, mask: u32) {
        for lane in lanes(mask) {
            let who = warp.thread_ref(lane);
            for barrier in shared.barriers.values_mut().filter(|barrier| barrier.rank == who.rank) {
                barrier.fenced |= barrier.made.is_of(&who);
            }
        }
    }

    /// Executes [`ptx_asm::Inst::MbarrierArrive`], [`ptx_asm::Inst::MbarrierArriveCluster`], or, with bytes,
    /// [`ptx_asm::Inst::MbarrierArriveExpectTx`].
    pub(super) fn arrive(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        mask: u32,
        at: AddressOperand,
        bytes: u32,
    ) -> StepResult<()> {
        let places = self.barriers(warp, mask, at)?;
        let whole = mask == warp.present;
        let mut released = whole.then(|| shared.clocks.release_warp(warp.rank, warp.number));
        for lane in self.some_order(mask) {
            let Some(located) = places[lane] else { continue };
            let who = warp.thread_ref(lane);
            if !whole {
                released = Some(shared.clocks.release(&who));
            }
            let Some((clock, moment)) = &released else { continue };
            self.arrive_one(shared, &who, located, (bytes, clock, *moment)).in_lane(lane)?;
        }
        Ok(())
    }

    fn arrive_one(
        &mut self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
        (bytes, clock, moment): (u32, &VectorClock, Timestamp),
    ) -> CheckResult<()> {
        let is_remote = located.of != who.rank as usize;
        if is_remote {
            self.fenced_barrier(shared, who, located)?;
        }
        let barrier = self.barrier_at(shared, who, located)?;
        barrier.remote |= is_remote;
        if let Err(what) = barrier.arrive(bytes, clock) {
            return self.broken(located, what);
        }
        if is_remote {
            let what = format!("it knows of an arrival of thread {} of block {}", who.thread, who.block);
            shared.expects[located.of].insert(moment.column, (moment.time, what));
        }
        Ok(())
    }

    /// Executes [`ptx_asm::Inst::MbarrierWait`]. The scheduler blocks the warp until the returned phases are
    /// complete.
    pub(super) fn wait(
        &self,
        warp: &Warp,
        shared: &mut ClusterState,
        mask: u32,
        at: AddressOperand,
        (parity, cluster): (Reg, bool),
    ) -> StepResult<StepEvent> {
        let places = self.barriers(warp, mask, at)?;
        let parities = *warp.registers.get(self.program, parity, mask)?;
        let mut phases = Vec::new();
        for lane in lanes(mask) {
            let Some(located) = places[lane] else { continue };
            let parity = parities[lane] as u32;
            if parity > 1 {
                return self.broken(located, format!("expected parity 0 or 1, found {parity}")).in_lane(lane);
            }
            if located.of != warp.rank as usize {
                return self.broken(located, "it is waited for by another block").in_lane(lane);
            }
            self.barrier_at(shared, &warp.thread_ref(lane), located).in_lane(lane)?;
            phases.push(MbarrierPhase { lane, located, parity, cluster });
        }
        Ok(StepEvent::AtMbarrier(phases))
    }

    /// Whether all phases that a warp waits for are complete.
    pub(super) fn have_passed(&self, shared: &ClusterState, phases: &[MbarrierPhase]) -> bool {
        phases.iter().all(|phase| {
            let key = (phase.located.of as u32, phase.located.at);
            shared.barriers.get(&key).is_some_and(|barrier| barrier.has_passed(phase.parity))
        })
    }

    /// Describes the phase that a lane waits for, and the arrivals and bytes that it lacks.
    pub(super) fn missing(&self, shared: &ClusterState, phase: &MbarrierPhase) -> String {
        let MbarrierPhase { located, parity, .. } = *phase;
        let state = shared.barriers.get(&(located.of as u32, located.at)).map(Mbarrier::state);
        let location = self.location(located, located.at);
        format!("for parity {parity} of the barrier at {location}, whose {}", state.unwrap_or_default())
    }

    /// Ends the wait of a warp: its lanes acquire the vector clocks of the arrivals.
    pub(super) fn passed(
        &self,
        warp: &Warp,
        shared: &mut ClusterState,
        phases: &[MbarrierPhase],
    ) -> StepResult<()> {
        let whole = phases.len() == warp.present.count_ones() as usize;
        let alike = phases.windows(2).all(|pair| pair[0].located.at == pair[1].located.at);
        for phase in phases {
            let mut who = warp.thread_ref(phase.lane);
            let barrier = self.barrier_at(shared, &who, phase.located).in_lane(phase.lane)?;
            if barrier.remote && !phase.cluster {
                let what = "other blocks arrive at it, and the wait does not say so";
                return self.broken(phase.located, what).in_lane(phase.lane);
            }
            let clock = barrier.complete.clone();
            if whole && alike {
                // All lanes of the warp waited for the same mbarrier, so one acquire serves all of them.
                who.thread = SEVERAL_THREADS;
                shared.clocks.acquire(&who, &clock);
                break;
            }
            shared.clocks.acquire(&who, &clock);
        }
        Ok(())
    }
}
