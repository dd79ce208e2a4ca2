//! Times of kernels, from an event before and an event after each launch.
//!
//! The driver gives the time between two events as a float, which is exact to a microsecond for some seconds
//! only. So each kernel is placed relative to the end of the kernel that was timed before it.

use std::time::{Duration, Instant};

use device_runtime::{CallTime, KernelTimer, LaunchSize};

use super::{CallError, RecordedEvent};

/// A launch between two events.
pub(super) struct TimedLaunch {
    pub(super) begin: RecordedEvent,
    pub(super) end: RecordedEvent,
    pub(super) timer: KernelTimer,
    pub(super) size: LaunchSize,
}

/// Translates times of the device's events to times of the host.
#[derive(Default)]
pub(super) struct DeviceClock {
    /// The end of the last timed launch.
    last: Option<(RecordedEvent, Instant)>,
}

impl DeviceClock {
    /// Passes the time of a launch that is done to its timer. The context must be current.
    pub(super) fn record(&mut self, launch: TimedLaunch) {
        match self.time(&launch) {
            Ok((begin, end)) => {
                launch.timer.record(CallTime { begin, end, size: Some(launch.size) });
                self.last = Some((launch.end, end));
            }
            Err(error) => tracing::warn!(%error, "the time of a kernel is unknown"),
        }
    }

    /// The begin and the end of a launch. The first launch is assumed to end now.
    fn time(&self, launch: &TimedLaunch) -> Result<(Instant, Instant), CallError> {
        let kernel = duration(launch.end.milliseconds_since(&launch.begin)?);
        let begin = match &self.last {
            Some((event, at)) => *at + duration(launch.begin.milliseconds_since(event)?),
            None => {
                let now = Instant::now();
                now.checked_sub(kernel).unwrap_or(now)
            }
        };
        Ok((begin, begin + kernel))
    }
}

/// A time of the driver; one that is negative by rounding counts as 0.
fn duration(milliseconds: f32) -> Duration {
    Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default()
}
