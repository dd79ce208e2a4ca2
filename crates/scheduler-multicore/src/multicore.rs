//! The scheduler with one worker thread per stream.

use std::{collections::VecDeque, time::Duration};

use device_runtime::{DriverError, StreamStrategy};

use crate::{
    cpu::Config,
    crew::Crew,
    lane::{Lane, LaneState, Scheduler, Sealed},
    queue::{Queue, Refused},
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
        let threads = config.threads.max(1);
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

    fn open(&self, state: Arc<LaneState>) -> Result<Worker, DriverError> {
        let queue = Arc::new(Queue::new(self.queue_capacity, SPIN));
        let name = state.stream().to_string();
        let body = {
            let (queue, state, crew) = (Arc::clone(&queue), Arc::clone(&state), Arc::clone(&self.crew));
            move || work(&queue, &state, &crew)
        };
        let thread = thread::Builder::new().name(name).spawn(body).map_err(|error| {
            DriverError::Platform { what: "starting a stream's thread", message: error.to_string() }
        })?;
        Ok(Worker { queue, state, thread: Mutex::new(Some(thread)) })
    }
}

/// The life of a worker thread.
fn work(queue: &Queue, state: &LaneState, crew: &Crew) {
    let mut batch = VecDeque::new();
    state.enter(|| {
        while queue.take(&mut batch) {
            let _awake = crew.enter();
            while let Some(task) = batch.pop_front() {
                task.run(state, crew);
            }
        }
    });
}

/// A stream's queue and the thread that empties it.
#[derive(Debug)]
pub struct Worker {
    queue: Arc<Queue>,
    state: Arc<LaneState>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Lane for Worker {
    fn submit(&self, task: Task) -> Result<(), DriverError> {
        let stream = || self.state.stream().to_string();
        self.queue.push(task, !self.state.is_current()).map_err(|refused| match refused {
            Refused::Full => {
                DriverError::SelfWait { stream: stream(), doing: "enqueueing into the full queue" }
            }
            Refused::Closed => {
                DriverError::Platform { what: "enqueueing", message: format!("{} has ended", stream()) }
            }
        })
    }

    fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().take();
        // A task may drop the last handle of its own stream; the thread then ends by itself.
        if let Some(thread) = thread.filter(|_| !self.state.is_current()) {
            // An error would be a panic of the worker's own code; tasks' panics are caught. There is nobody to tell.
            let _ = thread.join();
        }
    }

    fn debug_info(&self) -> String {
        let (state, waiting) = (if self.is_idle() { "idle" } else { "running" }, self.queue.len());
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
