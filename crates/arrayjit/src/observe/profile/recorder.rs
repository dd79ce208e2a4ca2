//! Records the times of a linked routine's runs.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use device_runtime::{Event, LaunchSize, RunError, RunTimes};

use super::{
    profile::{CallInterval, Profile, ProfiledCall, TimeSummary},
    source::ProfileSource,
};
use crate::routine::Routine;

/// The number of last durations of a call from which its median is taken.
const KEPT_DURATIONS: usize = 1024;
/// The most runs from which a typical one is chosen: the last ones.
const KEPT_RUNS: usize = 64;
/// The most runs whose times are awaited.
const PENDING_RUNS: usize = 4096;

/// The recorded runs of a linked routine. When it is dropped, it reports the profile if nobody asked for it.
#[derive(Debug)]
pub(crate) struct ProfileRecorder {
    source: ProfileSource,
    recording: Mutex<Recording>,
    is_taken: AtomicBool,
}

#[derive(Debug, Default)]
struct Recording {
    /// Durations of runs.
    runs: Durations,
    /// Durations of each kernel call.
    calls: Vec<Durations>,
    /// The calls of the last runs, by their duration.
    kept: VecDeque<(Duration, Box<[CallInterval]>)>,
    /// The size of each kernel call's launch in the last run.
    sizes: Vec<Option<LaunchSize>>,
    pending: VecDeque<PendingRun>,
    last: Option<Event>,
    /// Whether the devices time all kernels; unknown before the end of the first run.
    times_kernels: Option<bool>,
}

/// A run whose times may be incomplete.
#[derive(Debug)]
struct PendingRun {
    /// The times of each part.
    parts: Vec<Arc<RunTimes>>,
    /// The duration of the run, if the host waited for it.
    waited: Option<Duration>,
}

/// The durations of something that is repeated.
#[derive(Clone, Debug, Default)]
struct Durations {
    count: u64,
    total: Duration,
    last: VecDeque<Duration>,
}

impl ProfileRecorder {
    pub(crate) fn new(source: ProfileSource) -> ProfileRecorder {
        ProfileRecorder { source, recording: Mutex::default(), is_taken: AtomicBool::new(false) }
    }

    /// Runs the routine with timers. If a device cannot time kernels, waits for the stream before the run
    /// and for the run.
    pub(crate) fn run(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError> {
        let times_kernels = self.recording().times_kernels;
        if times_kernels == Some(false) {
            // An earlier failure is not one of this run.
            let _ = routine.context().stream().sync();
        }
        let start = Instant::now();
        let (event, parts) = routine.run_timed(bindings)?;
        let mut run = PendingRun { parts, waited: None };
        if times_kernels != Some(true) {
            let is_done = event.sync().is_ok();
            let waited = start.elapsed();
            if times_kernels.is_none() && is_done {
                self.recording().times_kernels = Some(run.is_complete());
            }
            // The first run may include work that later ones do not, such as loading code.
            run.waited = times_kernels.is_some().then_some(waited);
        }
        let mut recording = self.recording();
        recording.pending.push_back(run);
        recording.last = Some(event.clone());
        recording.settle();
        Ok(event)
    }

    /// The profile of all runs so far. Waits for them.
    pub(crate) fn profile(&self) -> Profile {
        self.is_taken.store(true, Ordering::Relaxed);
        self.finish()
    }

    fn finish(&self) -> Profile {
        let last = self.recording().last.take();
        if let Some(event) = last {
            // A failed run has no times.
            let _ = event.sync();
        }
        let mut recording = self.recording();
        recording.settle();
        let mut profile = self.source.profile();
        recording.write(&mut profile);
        drop(recording);
        profile.with_roofline(self.source.roofline())
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProfileRecorder {
    fn drop(&mut self) {
        let has_run = self.recording().last.is_some();
        if has_run && !self.is_taken.load(Ordering::Relaxed) {
            self.source.report(self.finish());
        }
    }
}

impl Recording {
    /// Adds the times of all runs at the front that are complete.
    fn settle(&mut self) {
        let times_kernels = self.times_kernels == Some(true);
        while self.pending.front().is_some_and(|run| run.is_complete() || !times_kernels) {
            let Some(run) = self.pending.pop_front() else { break };
            self.add(&run);
        }
        while self.pending.len() > PENDING_RUNS {
            self.pending.pop_front();
        }
    }

    fn add(&mut self, run: &PendingRun) {
        let times: Vec<_> = run.times().collect();
        self.calls.resize(times.len(), Durations::default());
        self.sizes = times.iter().map(|time| time.and_then(|time| time.size)).collect();
        for (durations, time) in self.calls.iter_mut().zip(&times) {
            if let Some(time) = time {
                durations.add(time.end.saturating_duration_since(time.begin));
            }
        }
        let whole: Option<Vec<_>> = times.into_iter().collect();
        let Some((first, last)) = whole.as_ref().and_then(|times| times.first().zip(times.last())) else {
            run.waited.into_iter().for_each(|waited| self.runs.add(waited));
            return;
        };
        let took = last.end.saturating_duration_since(first.begin);
        self.runs.add(took);
        let since = |at: Instant| micros(at.saturating_duration_since(first.begin));
        let intervals = whole
            .iter()
            .flatten()
            .map(|time| CallInterval { begin_us: since(time.begin), end_us: since(time.end) });
        self.kept.push_back((took, intervals.collect()));
        if self.kept.len() > KEPT_RUNS {
            self.kept.pop_front();
        }
    }

    /// Writes the times to a profile that has none.
    fn write(&self, profile: &mut Profile) {
        profile.run_time = self.runs.summary();
        let mut kept: Vec<_> = self.kept.iter().collect();
        kept.sort_by_key(|(took, _)| *took);
        let typical = kept.get(kept.len() / 2).map(|(_, calls)| calls);
        for (at, call) in profile.calls.iter_mut().enumerate() {
            let ProfiledCall { time, interval, launch, .. } = call;
            *launch = self.sizes.get(at).copied().flatten();
            *time = self.calls.get(at).and_then(Durations::summary);
            *interval = typical.and_then(|calls| calls.get(at)).copied();
        }
        if self.times_kernels == Some(false) {
            profile.notes.push(
                "a device cannot time its kernels: the time of a run is that from its submission until the \
                 host has waited for it"
                    .to_owned(),
            );
        }
    }
}

impl PendingRun {
    /// The time of each call.
    fn times(&self) -> impl Iterator<Item = Option<device_runtime::CallTime>> + '_ {
        self.parts.iter().flat_map(|part| (0..part.len()).map(|call| part.get(call)))
    }

    fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.is_empty() || part.get(part.len() - 1).is_some())
    }
}

impl Durations {
    fn add(&mut self, duration: Duration) {
        self.count += 1;
        self.total += duration;
        self.last.push_back(duration);
        if self.last.len() > KEPT_DURATIONS {
            self.last.pop_front();
        }
    }

    fn summary(&self) -> Option<TimeSummary> {
        let mut last: Vec<Duration> = self.last.iter().copied().collect();
        last.sort();
        let median = *last.get(last.len() / 2)?;
        let (count, total_us) = (self.count, micros(self.total));
        Some(TimeSummary { count, median_us: micros(median), total_us })
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
