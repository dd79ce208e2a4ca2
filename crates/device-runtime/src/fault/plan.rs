//! The plan of faults with their rates, and counts of injected faults.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{error::Failure, pool::lock};

/// A kind of fault, and its position in tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    OutOfMemory,
    RejectedPeer,
    SlowCopy,
    TaskFailure,
    LateCompletion,
    DeviceLost,
}

const FAULT_KINDS: usize = 6;

/// The faults that a [`FaultDevice`](crate::FaultDevice) injects: a seed, and a rate for each kind of fault.
/// The rate is the probability, from 0 to 1, with which the fault happens wherever it can happen. All rates
/// are initially zero.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    pub(super) seed: u64,
    rates: [f64; FAULT_KINDS],
    pub(super) delay: Duration,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new(seed: u64) -> FaultPlan {
        FaultPlan { seed, rates: [0.0; FAULT_KINDS], delay: Duration::from_micros(200) }
    }

    fn rate(mut self, fault: Fault, rate: f64) -> FaultPlan {
        self.rates[fault as usize] = rate;
        self
    }

    /// The rate of allocations that fail.
    #[must_use]
    pub fn out_of_memory(self, rate: f64) -> FaultPlan {
        self.rate(Fault::OutOfMemory, rate)
    }

    /// The rate of imports that fail, so that the runtime has to copy.
    #[must_use]
    pub fn rejected_peers(self, rate: f64) -> FaultPlan {
        self.rate(Fault::RejectedPeer, rate)
    }

    /// The rate of copies and fills that are delayed; see [`FaultPlan::delay`].
    #[must_use]
    pub fn slow_copies(self, rate: f64) -> FaultPlan {
        self.rate(Fault::SlowCopy, rate)
    }

    /// The duration of a delay; initially 200 µs.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> FaultPlan {
        self.delay = delay;
        self
    }

    /// The rate of tasks that fail their stream after nothing, a half or all of their work.
    #[must_use]
    pub fn task_failures(self, rate: f64) -> FaultPlan {
        self.rate(Fault::TaskFailure, rate)
    }

    /// The rate of events that still answer some polls with "pending" after they are done, so that the order
    /// in which events of different streams complete varies. A wait for such an event is not delayed.
    #[must_use]
    pub fn late_completions(self, rate: f64) -> FaultPlan {
        self.rate(Fault::LateCompletion, rate)
    }

    /// The rate of tasks at which the device is lost, permanently.
    #[must_use]
    pub fn device_lost(self, rate: f64) -> FaultPlan {
        self.rate(Fault::DeviceLost, rate)
    }
}

/// The number of injected faults by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Failed allocations.
    pub out_of_memory: u64,
    /// Failed imports.
    pub rejected_peers: u64,
    /// Delayed copies and fills.
    pub slow_copies: u64,
    /// Failed tasks.
    pub task_failures: u64,
    /// Events that completed late.
    pub late_completions: u64,
    /// 1 once the device is lost.
    pub device_lost: u64,
}

/// Decides which faults happen, and records them.
#[derive(Debug)]
pub(super) struct Injector {
    pub(super) plan: FaultPlan,
    active: AtomicBool,
    counts: [AtomicU64; FAULT_KINDS],
    failures: Mutex<Vec<Failure>>,
}

/// A source of decisions, determined by seed and name. Each stream has one, so that its faults do not depend
/// on the activity of other threads.
#[derive(Debug)]
pub(super) struct FaultDice(Mutex<fastrand::Rng>);

impl FaultDice {
    pub(super) fn new(seed: u64, name: &str) -> FaultDice {
        // FNV-1a: spreads names, and is the same on every machine.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        FaultDice(Mutex::new(fastrand::Rng::with_seed(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix))))
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

    /// Whether a fault happens now. Each call takes one random number, whatever the rates, so that plans with
    /// the same seed make similar decisions.
    pub(super) fn happens(&self, fault: Fault, dice: &FaultDice) -> bool {
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

    /// A new failure, made with its number and recorded.
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
            rejected_peers: of(Fault::RejectedPeer),
            slow_copies: of(Fault::SlowCopy),
            task_failures: of(Fault::TaskFailure),
            late_completions: of(Fault::LateCompletion),
            device_lost: of(Fault::DeviceLost),
        }
    }
}
