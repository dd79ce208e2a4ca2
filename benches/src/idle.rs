//! The cost of threads that wait for work: the processor time that they use after a run, and the time of a
//! run that must wake them.

use std::{fmt, thread, time::Duration};

use anyhow::{Context as _, Result};
use arrayjit::{Backend, HostArray, TensorNode};
use serde::{Deserialize, Serialize};

use crate::contest::median;

/// Elements of the array that a run processes: enough for all threads, in some tens of microseconds.
const ELEMENTS: usize = 1 << 18;
/// The number of runs of each kind.
const RUNS: usize = 15;
/// The time after which threads are assumed to sleep.
const REST: Duration = Duration::from_millis(60);
/// The time over which sleeping threads are observed.
const OBSERVED: Duration = Duration::from_millis(500);

/// The cost of waiting threads. Written as JSON: fields may be added, none renamed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IdleCost {
    /// Milliseconds of processor time, of all threads together, from the end of a run until they sleep.
    pub(crate) after_run_ms: f64,
    /// Milliseconds of processor time per second later on.
    pub(crate) asleep_ms_per_s: f64,
    /// Median microseconds of a run directly after another.
    pub(crate) awake_us: f64,
    /// Median microseconds of a run that wakes the threads.
    pub(crate) woken_us: f64,
}

impl IdleCost {
    /// Measures the threads of a backend; `None` on systems without a clock of processor time.
    ///
    /// # Errors
    ///
    /// The error of the routine.
    pub(crate) fn measure(backend: &Backend) -> Result<Option<IdleCost>> {
        let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([ELEMENTS]).build());
        let (x, y) = (x?, y?);
        let context = backend.context()?.init_from_host(&x, &HostArray::zeros(x.dtype(), [ELEMENTS])?)?;
        let routine = backend.compile("y[i] := relu(1.5 * x[i] + 0.5)", [&x, &y])?.link(&context)?;
        let run = || -> Result<f64> {
            let start = std::time::Instant::now();
            routine.run(&[])?.sync()?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        run()?;
        let (mut awake, mut woken, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            thread::sleep(REST);
            woken.push(run()?);
            awake.push(run()?);
            let Some(before) = processor_time() else { return Ok(None) };
            thread::sleep(REST);
            let used = processor_time().context("a clock that has stopped")?.saturating_sub(before);
            after.push(used.as_secs_f64() * 1e3);
        }
        let before = processor_time().context("a clock that has stopped")?;
        thread::sleep(OBSERVED);
        let asleep = processor_time().context("a clock that has stopped")?.saturating_sub(before);
        Ok(Some(IdleCost {
            after_run_ms: median(after),
            asleep_ms_per_s: asleep.as_secs_f64() * 1e3 / OBSERVED.as_secs_f64(),
            awake_us: median(awake),
            woken_us: median(woken),
        }))
    }
}

impl fmt::Display for IdleCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IdleCost { after_run_ms, asleep_ms_per_s, awake_us, woken_us } = self;
        write!(
            f,
            "waiting threads use {after_run_ms:.2} ms of processor time after a run, then {asleep_ms_per_s:.2} ms \
             per second; a run of {awake_us:.1} us takes {woken_us:.1} us when it wakes them"
        )
    }
}

/// The processor time that this process has used.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the time.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    (code == 0).then(|| Duration::new(seconds, nanos))
}

#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_are_measured() {
        // The processor time of the process has no part of other tests.
        if !codegen_testkit::in_own_process("idle::tests::threads_that_wait_are_measured") {
            return;
        }
        let mut settings = arrayjit::Settings::default();
        settings.threads = 2;
        let backend = Backend::open_with("multicore", &settings).unwrap();
        let Some(cost) = IdleCost::measure(&backend).unwrap() else { return };
        assert!(cost.awake_us > 0.0 && cost.woken_us > 0.0 && cost.after_run_ms >= 0.0, "{cost}");
        assert!(cost.asleep_ms_per_s < 1000.0, "{cost}");
    }
}
