//! The scheduler with one worker thread per stream.

use std::time::Duration;

use device_runtime::{DriverError, StreamStrategy};

use crate::{
    backlog::Backlog,
    cpu::{Config, MAX_THREADS},
    crew::Crew,
    lane::{Lane, LaneState, Scheduler, Sealed, is_in_task},
    queue::Queue,
    sync::{Arc, Mutex, thread},
    task::Task,
};

/// How long a worker without work stays awake.
const SPIN: Duration = Duration::from_micros(20);

/// A worker thread per stream; kernels are split over the threads that are idle.
#[derive(Debug)]
pub struct Multicore {
    threads: usize,
    queue_capacity: usize,
    crew: Arc<Crew>,
}

impl Multicore {
    /// A scheduler as configured; threads start when streams are made and kernels are split.
    pub fn new(config: &Config) -> Multicore {
        let threads = config.threads.clamp(1, MAX_THREADS);
        Multicore { threads, queue_capacity: config.queue_capacity, crew: Arc::new(Crew::new(threads)) }
    }
}

impl Sealed for Multicore {}

impl Scheduler for Multicore {
    type Lane = Worker;

    fn name(&self) -> &'static str {
        "multicore"
    }

    fn threads(&self) -> usize {
        self.threads
    }

    /// One, since a stream's kernels use all threads; a second one for copies; or one per thread.
    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize {
        match strategy {
            StreamStrategy::OnlyDevicesParallel => 1,
            StreamStrategy::ForParallelCopying => self.threads.min(2),
            StreamStrategy::MostParallelStreams => self.threads,
        }
    }

    fn open(&self, stream: &str) -> Result<Worker, DriverError> {
        let queue = Queue::new(self.queue_capacity, SPIN);
        Worker::start(LaneState::new(stream, Some(Backlog::new(queue, Arc::clone(&self.crew)))))
    }
}

/// A lane with a thread that works its backlog off.
#[derive(Debug)]
pub struct Worker {
    state: Arc<LaneState>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Worker {
    /// Starts the thread of a lane, which has a backlog.
    pub(crate) fn start(state: Arc<LaneState>) -> Result<Worker, DriverError> {
        let lane = Arc::clone(&state);
        let work = move || lane.backlog().into_iter().for_each(|backlog| backlog.work(&lane));
        let thread =
            thread::Builder::new().name(state.stream().to_string()).spawn(work).map_err(|error| {
                DriverError::Platform { what: "starting a stream's thread", message: error.to_string() }
            })?;
        Ok(Worker { state, thread: Mutex::new(Some(thread)) })
    }

    fn backlog(&self) -> &Backlog {
        self.state.backlog().expect("lanes with a worker are made with a backlog")
    }
}

impl Lane for Worker {
    fn state(&self) -> &Arc<LaneState> {
        &self.state
    }

    fn submit(&self, task: Task) -> Result<(), DriverError> {
        self.backlog().submit(&self.state, task)
    }

    fn is_idle(&self) -> bool {
        self.backlog().queue().is_idle()
    }

    fn close(&self) {
        self.backlog().queue().close();
        let thread = self.thread.lock().take();
        // Inside a task nobody waits, be it for another lane: the thread then ends by itself.
        if let Some(thread) = thread.filter(|_| !is_in_task()) {
            // An error would be a panic of the worker's own code; tasks' panics are caught. There is nobody to tell.
            let _ = thread.join();
        }
    }

    fn debug_info(&self) -> String {
        let (state, waiting) =
            (if self.is_idle() { "idle" } else { "running" }, self.backlog().queue().len());
        let failure = self.state.failure().map_or_else(String::new, |failure| format!(", {failure}"));
        format!("{}: {state}, {waiting} tasks waiting{failure}", self.state.stream())
    }
}

/// Ends the thread where the driver did not.
impl Drop for Worker {
    fn drop(&mut self) {
        self.close();
    }
}
