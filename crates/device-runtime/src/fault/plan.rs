//! What is injected and how often, and how often it was.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{error::Failure, pool::lock};

/// A kind of fault, as a position in tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    OutOfMemory,
    RefusedPeer,
    SlowCopy,
    TaskFailure,
    LateCompletion,
    Loss,
}

const KINDS: usize = 6;

/// What a [`FaultDevice`](crate::FaultDevice) injects: a seed, and for each kind of fault a rate, which is the probability
/// from 0 to 1 that an occasion for it is used. All rates are zero at first.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    pub(super) seed: u64,
    rates: [f64; KINDS],
    pub(super) delay: Duration,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new(seed: u64) -> FaultPlan {
        FaultPlan { seed, rates: [0.0; KINDS], delay: Duration::from_micros(200) }
    }

    fn rate(mut self, fault: Fault, rate: f64) -> FaultPlan {
        self.rates[fault as usize] = rate;
        self
    }

    /// Allocations that find no memory.
    #[must_use]
    pub fn out_of_memory(self, rate: f64) -> FaultPlan {
        self.rate(Fault::OutOfMemory, rate)
    }

    /// Memory of others that cannot be reached after all, so that the runtime has to copy.
    #[must_use]
    pub fn refused_peers(self, rate: f64) -> FaultPlan {
        self.rate(Fault::RefusedPeer, rate)
    }

    /// Copies and fills that take long; see [`FaultPlan::delay`].
    #[must_use]
    pub fn slow_copies(self, rate: f64) -> FaultPlan {
        self.rate(Fault::SlowCopy, rate)
    }

    /// How long a slow copy takes; 200 µs at first.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> FaultPlan {
        self.delay = delay;
        self
    }

    /// Tasks that fail their stream, having done nothing, a half or all of their work.
    #[must_use]
    pub fn task_failures(self, rate: f64) -> FaultPlan {
        self.rate(Fault::TaskFailure, rate)
    }

    /// Events that are said to be pending for some more questions after they are done, so that events of different streams
    /// become done in other orders. Who waits for such an event does not wait any longer.
    #[must_use]
    pub fn late_completions(self, rate: f64) -> FaultPlan {
        self.rate(Fault::LateCompletion, rate)
    }

    /// Tasks at which the device is lost, for good.
    #[must_use]
    pub fn loss(self, rate: f64) -> FaultPlan {
        self.rate(Fault::Loss, rate)
    }
}

/// How many faults of each kind were injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Allocations refused.
    pub out_of_memory: u64,
    /// Imports refused.
    pub refused_peers: u64,
    /// Copies and fills delayed.
    pub slow_copies: u64,
    /// Tasks failed.
    pub task_failures: u64,
    /// Events that were done late.
    pub late_completions: u64,
    /// 1 once the device is lost.
    pub losses: u64,
}

/// Decides, and remembers what it decided.
#[derive(Debug)]
pub(super) struct Injector {
    pub(super) plan: FaultPlan,
    active: AtomicBool,
    counts: [AtomicU64; KINDS],
    failures: Mutex<Vec<Failure>>,
}

/// A source of decisions, the same for the same seed and name. One stream draws from one, so that what happens to a stream does
/// not depend on what other threads do with others.
#[derive(Debug)]
pub(super) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    pub(super) fn new(seed: u64, name: &str) -> Dice {
        // FNV-1a: spreads names, and is the same on every machine.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Dice(Mutex::new(fastrand::Rng::with_seed(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix))))
    }

    pub(super) fn below(&self, bound: u32) -> u32 {
        lock(&self.0).u32(0..bound)
    }
}

impl Injector {
    pub(super) fn new(plan: FaultPlan) -> Injector {
        let (counts, failures) = (Default::default(), Mutex::default());
        Injector { plan, active: AtomicBool::new(true), counts, failures }
    }

    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Relaxed);
    }

    /// Whether a fault happens now. Each question takes one number, whatever the rates, so that plans with one seed are alike.
    pub(super) fn happens(&self, fault: Fault, dice: &Dice) -> bool {
        let happens =
            self.active.load(Ordering::Relaxed) && lock(&dice.0).f64() < self.plan.rates[fault as usize];
        if happens {
            self.count(fault);
        }
        happens
    }

    pub(super) fn count(&self, fault: Fault) {
        self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A new failure, made with its number and remembered.
    pub(super) fn failure(&self, make: impl FnOnce(usize) -> Failure) -> Failure {
        let mut failures = lock(&self.failures);
        let failure = make(failures.len());
        failures.push(failure.clone());
        failure
    }

    pub(super) fn failures(&self) -> Vec<Failure> {
        lock(&self.failures).clone()
    }

    pub(super) fn counts(&self) -> FaultCounts {
        let of = |fault: Fault| self.counts[fault as usize].load(Ordering::Relaxed);
        FaultCounts {
            out_of_memory: of(Fault::OutOfMemory),
            refused_peers: of(Fault::RefusedPeer),
            slow_copies: of(Fault::SlowCopy),
            task_failures: of(Fault::TaskFailure),
            late_completions: of(Fault::LateCompletion),
            losses: of(Fault::Loss),
        }
    }
}
