//! The times of the kernel calls of a run, for profiles.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// The time at which each kernel call of one run began and ended. The driver records it while the run goes
/// on.
#[derive(Debug)]
pub struct RunTimes {
    calls: Box<[OnceLock<CallTime>]>,
}

/// The time at which a kernel call began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTime {
    /// The begin, after the end of the call before.
    pub begin: Instant,
    /// The end, when all threads of the kernel are done.
    pub end: Instant,
    /// The size of the launch, on devices that divide a kernel into blocks of threads.
    pub size: Option<LaunchSize>,
}

/// The size of a launch on a GPU, and the resources that its compiled code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchSize {
    /// The number of blocks in the grid.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
    /// Bytes of local memory per thread: arrays of the code, and spilled registers.
    pub local_bytes: u32,
}

/// Records the time of one kernel call, for [`Driver::launch_timed`](crate::Driver::launch_timed).
#[derive(Clone, Debug)]
pub struct KernelTimer {
    times: Arc<RunTimes>,
    call: usize,
}

impl RunTimes {
    pub(crate) fn new(calls: usize) -> Arc<RunTimes> {
        Arc::new(RunTimes { calls: (0..calls).map(|_| OnceLock::new()).collect() })
    }

    /// The number of kernel calls of the run.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether the run has no kernel call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The time of a kernel call; `None` while it has not ended, if it failed, and on a device that cannot
    /// time kernels.
    pub fn get(&self, call: usize) -> Option<CallTime> {
        self.calls.get(call)?.get().copied()
    }

    pub(crate) fn timer(self: &Arc<RunTimes>, call: usize) -> KernelTimer {
        KernelTimer { times: Arc::clone(self), call }
    }
}

impl KernelTimer {
    /// Runs the kernel and records its time, unless it fails or panics.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn measure<E>(&self, run: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let begin = Instant::now();
        run()?;
        self.record(CallTime { begin, end: Instant::now(), size: None });
        Ok(())
    }

    /// Records a time that the device measured. Only the first record of a call counts.
    pub fn record(&self, time: CallTime) {
        if let Some(call) = self.times.calls.get(self.call) {
            let _ = call.set(time);
        }
    }
}
