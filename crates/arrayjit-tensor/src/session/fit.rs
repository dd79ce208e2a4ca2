//! Steps over an iterator of batches, with a progress bar.

use std::{
    any::Any,
    io::IsTerminal,
    ops::ControlFlow,
    sync::mpsc::{Receiver, Sender, channel, sync_channel},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    error::{Result, TensorError},
    parameter::locked,
    session::{BatchValues, IntoBatch, Metrics, Session, metrics::ROWS},
};

/// The number of batches that are made ahead.
const PREPARED_BATCHES: usize = 2;

/// The least time between two reads of metrics, unless many steps are unread.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// The number of unread steps at which metrics are read at once, and at which the next step waits for them.
const UNREAD_STEPS: usize = ROWS / 4;
const MOST_UNREAD_STEPS: usize = ROWS * 3 / 4;

/// The state of a call of [`Session::fit`].
pub struct Progress<'a> {
    metrics: &'a [Metrics],
    done: u64,
    elapsed: Duration,
}

impl Progress<'_> {
    /// The metrics of all steps since the last report, in order; at least one.
    pub fn metrics(&self) -> &[Metrics] {
        self.metrics
    }

    /// The number of the last step that was read, from 0.
    pub fn step(&self) -> u64 {
        self.metrics.last().map_or(0, Metrics::step)
    }

    /// The loss of the last step that was read.
    pub fn loss(&self) -> f64 {
        self.metrics.last().map_or(f64::NAN, Metrics::loss)
    }

    /// Steps per second since the call, compilation included.
    pub fn steps_per_second(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }
}

/// What a callback of [`Session::fit`] returns: whether training goes on, or nothing.
pub trait IntoControlFlow {
    /// Whether training goes on.
    fn into_control_flow(self) -> ControlFlow<()>;
}

impl IntoControlFlow for () {
    fn into_control_flow(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl IntoControlFlow for ControlFlow<()> {
    fn into_control_flow(self) -> ControlFlow<()> {
        self
    }
}

impl Session {
    /// Trains on all batches of an iterator, which runs on another thread, so that batches are made while
    /// steps run. Calls `on_progress` now and then with the metrics that were read since, and at the end.
    /// Returns the metrics of the last step. If `on_progress` returns [`ControlFlow::Break`], no further step
    /// is started, but those that were started end. Over ranks, metrics are read at other times on each rank,
    /// so all ranks must end their batches instead.
    ///
    /// A progress bar shows steps per second and the loss if the standard output is a terminal.
    ///
    /// ```
    /// use arrayjit_tensor::{
    ///     Backend, HostArray, Init, Params, ModelState, optim::Sgd, session::{Batch, Session},
    /// };
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [2], Init::ZEROS)?;
    /// let weights = ModelState::new(&Backend::open("multicore")?, &params)?;
    /// let mut session = Session::new(&weights, Sgd::new(0.1), move |batch: &Batch| {
    ///     batch.input("x")?.sub(&w)?.square()?.sum(..)
    /// })?;
    /// let x = HostArray::from_slice(&[1f32, 2.], [2])?;
    /// let mut losses = Vec::new();
    /// let last = session.fit((0..100).map(|_| [("x", x.clone())]), |progress| {
    ///     losses.extend(progress.metrics().iter().map(|metrics| metrics.loss()));
    /// })?;
    /// assert_eq!(losses.len(), 100);
    /// assert!(last.loss() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No batch, an error or a panic of the iterator, or an error as in [`step`](Session::step). The steps of
    /// the batches before remain.
    pub fn fit<I, F>(
        &mut self,
        batches: I,
        mut on_progress: impl FnMut(&Progress<'_>) -> F,
    ) -> Result<Metrics>
    where
        I: IntoIterator<IntoIter: Send, Item: IntoBatch>,
        F: IntoControlFlow,
    {
        self.core.settle()?; // the reports are about the steps of this call
        let batches = batches.into_iter();
        let bar = self.bar(batches.size_hint());
        let core = self.core.clone();
        let (prepared, batch_values) = sync_channel(PREPARED_BATCHES);
        let (requests, requested) = channel();
        let (answers, read) = channel();
        thread::scope(|scope| {
            let feeder = scope.spawn(move || {
                for batch in batches {
                    if prepared.send(batch.into_batch()).is_err() {
                        return;
                    }
                }
            });
            scope.spawn(move || {
                for () in requested {
                    if answers.send(core.settle()).is_err() {
                        return;
                    }
                }
            });
            let mut reader = MetricsReader { requests, read, is_asked: false, asked_at: Instant::now() };
            let mut on_progress =
                |progress: &Progress<'_>| on_progress(progress).into_control_flow().is_break();
            let mut report = Report {
                bar: &bar,
                on_progress: &mut on_progress,
                started: Instant::now(),
                done: 0,
                is_stopped: false,
            };
            let result = self.train(batch_values, &mut reader, &mut report);
            bar.finish_and_clear();
            match (feeder.join(), result) {
                (Err(panic), Ok(_) | Err(TensorError::NoBatches)) => {
                    Err(TensorError::BatchesPanicked { message: panic_message(&*panic) })
                }
                (_, result) => result,
            }
        })
    }

    fn train(
        &mut self,
        batches: Receiver<Result<BatchValues>>,
        reader: &mut MetricsReader,
        report: &mut Report<'_>,
    ) -> Result<Metrics> {
        let mut last = None;
        for values in batches {
            let (_, metrics) = self.start_step(values?)?;
            last = report.report(metrics).or(last);
            let unread = locked(&self.core.pending).len();
            if let Some(metrics) = reader.poll(unread)? {
                last = report.report(metrics).or(last);
            }
            if report.is_stopped {
                break;
            }
        }
        if let Some(metrics) = reader.finish()? {
            last = report.report(metrics).or(last);
        }
        let metrics = self.core.settle()?;
        report.report(metrics).or(last).ok_or(TensorError::NoBatches)
    }

    fn bar(&self, (least, most): (usize, Option<usize>)) -> ProgressBar {
        let is_first = self.core.ranks.as_ref().is_none_or(|ranks| ranks.group().rank() == 0);
        if !self.progress_bar || !is_first || !std::io::stdout().is_terminal() {
            return ProgressBar::hidden();
        }
        let length = most.filter(|most| *most == least).map(|length| length as u64);
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stdout());
        let template = match length {
            Some(_) => "{wide_bar} {pos}/{len} {msg}",
            None => "{spinner} {pos} {msg}",
        };
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar, // the default style
        }
    }
}

/// The message of a panic, if it has one.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// The thread that reads metrics, so that the next steps are started meanwhile.
struct MetricsReader {
    requests: Sender<()>,
    read: Receiver<Result<Vec<Metrics>>>,
    is_asked: bool,
    asked_at: Instant,
}

impl MetricsReader {
    /// Asks for metrics if it is time, and returns metrics that were read meanwhile. Waits if many steps are
    /// unread.
    fn poll(&mut self, unread: usize) -> Result<Option<Vec<Metrics>>> {
        if !self.is_asked && (unread >= UNREAD_STEPS || self.asked_at.elapsed() >= READ_INTERVAL) {
            self.is_asked = self.requests.send(()).is_ok();
            self.asked_at = Instant::now();
        }
        match self.is_asked && unread >= MOST_UNREAD_STEPS {
            true => self.finish(),
            false => self.read.try_recv().ok().map(|metrics| self.answered(metrics)).transpose(),
        }
    }

    /// Waits for metrics that were asked for.
    fn finish(&mut self) -> Result<Option<Vec<Metrics>>> {
        if !self.is_asked {
            return Ok(None);
        }
        self.read.recv().ok().map(|metrics| self.answered(metrics)).transpose()
    }

    fn answered(&mut self, metrics: Result<Vec<Metrics>>) -> Result<Vec<Metrics>> {
        self.is_asked = false;
        metrics
    }
}

/// Reports metrics to the caller and to the progress bar.
struct Report<'a> {
    bar: &'a ProgressBar,
    /// Returns whether training stops.
    on_progress: &'a mut dyn FnMut(&Progress<'_>) -> bool,
    started: Instant,
    done: u64,
    is_stopped: bool,
}

impl Report<'_> {
    /// Returns the last metrics, if there are any.
    fn report(&mut self, metrics: Vec<Metrics>) -> Option<Metrics> {
        if metrics.is_empty() {
            return None;
        }
        self.done += metrics.len() as u64;
        let progress = Progress { metrics: &metrics, done: self.done, elapsed: self.started.elapsed() };
        self.bar.set_message(format!(
            "loss {:.4}, {:.1} steps/s",
            progress.loss(),
            progress.steps_per_second()
        ));
        self.bar.set_position(self.done);
        self.is_stopped |= (self.on_progress)(&progress);
        metrics.last().cloned()
    }
}
