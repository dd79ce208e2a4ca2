//! Barriers in memory: phases that complete when enough threads have arrived and all bytes that were expected.

use std::collections::BTreeMap;

use super::access::ResolvedAddress;
use super::fault::{AccessKind, Accessor, CheckResult, FaultCause, InLane, StepResult, malformed};
use super::race_detector::AccessSet;
use super::registers::lanes;
use super::scheduler::{ClusterState, LaunchState};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, Timestamp, VectorClock, VectorClocks, advance, join};
use super::warp::{MbarrierPhase, StepEvent, Warp};
use ptx_asm::{AddressOperand, Reg, StateSpace};

/// The barriers of a cluster, by block and address.
pub(super) type Mbarriers = BTreeMap<(u32, usize), Mbarrier>;

/// A barrier in memory.
#[derive(Debug)]
pub(super) struct Mbarrier {
    /// Arrivals of a phase, and those that this one lacks.
    count: u32,
    pending: u32,
    /// Bytes that this phase expects and has not got; less than 0 while some came that are yet to be expected.
    bytes: i64,
    /// Phases that are complete.
    phases: u32,
    /// Counts phases.
    column: usize,
    /// What those know who arrived at this phase, and at those before.
    gathered: VectorClock,
    complete: VectorClock,
    /// Who made it, of which block.
    made: AccessSet,
    rank: u32,
    /// Whether the maker has told others since.
    fenced: bool,
    /// Whether threads of other blocks arrive.
    remote: bool,
}

/// The size of a barrier, and its alignment.
const BYTES: u32 = 8;

/// The most arrivals and bytes that a phase counts.
const MOST: i64 = (1 << 20) - 1;

impl Mbarrier {
    /// Whether the last phase that is complete has this parity.
    pub(super) fn has_passed(&self, parity: u32) -> bool {
        self.phases & 1 != parity
    }

    /// What is missing, in words.
    pub(super) fn state(&self) -> String {
        format!("phase {} lacks {} arrivals and {} bytes", self.phases, self.pending, self.bytes)
    }

    /// The moment that those know who wait for the phase at hand.
    pub(super) fn phase(&self) -> Timestamp {
        Timestamp { column: self.column, time: self.phases + 1 }
    }

    /// An arrival, of somebody who knows this; before it, so many bytes are expected.
    fn arrive(&mut self, bytes: u32, clock: &[u32]) -> Result<(), String> {
        self.bytes += i64::from(bytes);
        if self.pending == 0 {
            return Err(format!("expected {} arrivals in phase {}, found more", self.count, self.phases));
        }
        if self.bytes > MOST {
            return Err(format!("{} bytes are expected, and at most {MOST} counted", self.bytes));
        }
        self.pending -= 1;
        join(&mut self.gathered, clock);
        self.complete_phase()
    }

    /// Bytes have come, of a copy begun by somebody who knew this.
    pub(super) fn receive(&mut self, bytes: usize, clock: &[u32]) -> Result<(), String> {
        self.bytes -= bytes as i64;
        if self.bytes < -MOST {
            return Err(format!("{} bytes came, and at most {MOST} are counted", -self.bytes));
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

    /// Whether somebody knows that it was made: a thread that has arrived, waited or met since.
    fn known(&self, who: &ThreadRef, clocks: &VectorClocks) -> Result<(), Accessor> {
        self.made.unordered(self.rank, who, clocks).map_or(Ok(()), Err)
    }
}

impl LaunchState<'_> {
    /// The places of barriers that lanes name: addresses in the window of the block, or of the cluster.
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
            let (rank, address) = super::cluster::parts(addresses[lane]);
            who.rank = rank.unwrap_or(who.rank);
            found[lane] = Some(self.locate(StateSpace::Shared, &who, address, BYTES, BYTES).in_lane(lane)?);
        }
        Ok(found)
    }

    /// The barrier that is there, if whoever asks may know of it.
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

    /// Whether copies, and other blocks, know of it as well.
    pub(super) fn fenced_barrier(
        &self,
        shared: &mut ClusterState,
        who: &ThreadRef,
        located: ResolvedAddress,
    ) -> CheckResult<()> {
        if self.barrier_at(shared, who, located)?.fenced {
            return Ok(());
        }
        self.broken(located, "it was made, and no fence has told copies and other blocks")
    }

    pub(super) fn broken<T>(&self, located: ResolvedAddress, what: impl Into<String>) -> CheckResult<T> {
        Err(Box::new(FaultCause::Barrier { location: self.location(located, located.at), what: what.into() }))
    }

    /// Whether these bytes are none of a barrier.
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

    /// [`ptx_asm::Inst::MbarrierInit`].
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
        if !(1..=MOST as u32).contains(&count) {
            return malformed(format!("a barrier for {count} arrivals"));
        }
        if shared.barriers.contains_key(&(located.of as u32, located.at)) {
            return self.broken(located, "it is made a second time");
        }
        self.allowed(shared, who, located, BYTES, AccessKind::Write)?;
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

    /// [`ptx_asm::Inst::FenceMbarrierInit`].
    pub(super) fn fence_barriers(&self, warp: &Warp, shared: &mut ClusterState, mask: u32) {
        for lane in lanes(mask) {
            let who = warp.thread_ref(lane);
            for barrier in shared.barriers.values_mut().filter(|barrier| barrier.rank == who.rank) {
                barrier.fenced |= barrier.made.is_of(&who);
            }
        }
    }

    /// [`ptx_asm::Inst::MbarrierArrive`], [`ptx_asm::Inst::MbarrierArriveCluster`], and with bytes [`ptx_asm::Inst::MbarrierArriveExpectTx`].
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
        let mut told = whole.then(|| shared.clocks.release_warp(warp.rank, warp.number));
        for lane in self.some_order(mask) {
            let Some(located) = places[lane] else { continue };
            let who = warp.thread_ref(lane);
            if !whole {
                told = Some(shared.clocks.release(&who));
            }
            let Some((clock, moment)) = &told else { continue };
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

    /// [`ptx_asm::Inst::MbarrierWait`]: the scheduler lets the warp go on.
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

    /// Whether all that a warp waits for is complete.
    pub(super) fn have_passed(&self, shared: &ClusterState, phases: &[MbarrierPhase]) -> bool {
        phases.iter().all(|phase| {
            let key = (phase.located.of as u32, phase.located.at);
            shared.barriers.get(&key).is_some_and(|barrier| barrier.has_passed(phase.parity))
        })
    }

    /// Which barrier a lane waits for, and what that lacks, in words.
    pub(super) fn missing(&self, shared: &ClusterState, phase: &MbarrierPhase) -> String {
        let MbarrierPhase { located, parity, .. } = *phase;
        let state = shared.barriers.get(&(located.of as u32, located.at)).map(Mbarrier::state);
        let location = self.location(located, located.at);
        format!("for parity {parity} of the barrier at {location}, whose {}", state.unwrap_or_default())
    }

    /// A warp goes on: its lanes know what those knew who arrived.
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
                // Once for all lanes.
                who.thread = SEVERAL_THREADS;
                shared.clocks.acquire(&who, &clock);
                break;
            }
            shared.clocks.acquire(&who, &clock);
        }
        Ok(())
    }
}
