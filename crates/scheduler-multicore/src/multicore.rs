//! The scheduler with one worker thread per stream.

use device_runtime::{DriverError, Failure, StreamStrategy};

use crate::{
    bounded_queue::BoundedQueue,
    cpu::{CpuConfig, MAX_THREADS},
    pending_tasks::PendingTasks,
    queue_state::{QueueState, is_in_task},
    scheduler::{Scheduler, SealedScheduler, StreamQueue},
    sync::{Arc, Mutex, thread},
    task::QueuedTask,
    thread_pool::ThreadPool,
};

/// A worker thread per stream; kernels are split over the threads of a pool that are idle.
#[derive(Debug)]
pub struct Multicore {
    threads: usize,
    queue_capacity: usize,
    pool: Arc<ThreadPool>,
}

impl Multicore {
    /// A scheduler as configured; threads start when streams are made and kernels are split.
    pub fn new(config: &CpuConfig) -> Multicore {
        let threads = config.threads.clamp(1, MAX_THREADS);
        Multicore { threads, queue_capacity: config.queue_capacity, pool: Arc::new(ThreadPool::new(threads)) }
    }
}

impl SealedScheduler for Multicore {}

impl Scheduler for Multicore {
    type Queue = MulticoreQueue;

    fn name(&self) -> &'static str {
        "multicore"
    }

    fn threads(&self) -> usize {
        self.threads
    }

    /// Depends on the strategy: one stream, since its kernels use all threads; a second one for copies; or
    /// one per thread.
    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize {
        match strategy {
            StreamStrategy::OnlyDevicesParallel => 1,
            StreamStrategy::ForParallelCopying => self.threads.min(2),
            StreamStrategy::MostParallelStreams => self.threads,
        }
    }

    fn open(&self, stream: &str) -> Result<MulticoreQueue, DriverError> {
        let queue = BoundedQueue::new(self.queue_capacity, self.pool.spin());
        let pending = PendingTasks::new(queue, Arc::clone(&self.pool));
        MulticoreQueue::start(QueueState::new(stream, Some(pending)))
    }
}

/// A stream's queue with a worker thread of its own.
#[derive(Debug)]
pub struct MulticoreQueue {
    state: Arc<QueueState>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl MulticoreQueue {
    /// Starts the worker of a queue that has pending tasks.
    pub(crate) fn start(state: Arc<QueueState>) -> Result<MulticoreQueue, DriverError> {
        let own = Arc::clone(&state);
        let work = move || own.pending().into_iter().for_each(|pending| pending.work(&own));
        let thread =
            thread::Builder::new().name(state.stream().to_string()).spawn(work).map_err(|error| {
                DriverError::Platform { what: "starting a stream's thread", message: error.to_string() }
            })?;
        Ok(MulticoreQueue { state, thread: Mutex::new(Some(thread)) })
    }

    fn pending(&self) -> &PendingTasks {
        self.state.pending().expect("a queue with a worker is made with pending tasks")
    }
}

impl StreamQueue for MulticoreQueue {
    fn state(&self) -> &Arc<QueueState> {
        &self.state
    }

    fn submit(&self, task: QueuedTask) -> Result<(), DriverError> {
        self.pending().submit(&self.state, task)
    }

    fn try_run(&self, task: QueuedTask) -> Result<Option<Failure>, QueuedTask> {
        self.pending().try_run(&self.state, task)
    }

    fn enqueue(&self, task: QueuedTask) -> Result<(), DriverError> {
        self.pending().enqueue(&self.state, task)
    }

    fn is_idle(&self) -> bool {
        self.pending().queue().is_idle()
    }

    fn close(&self) {
        self.pending().queue().close();
        let thread = self.thread.lock().take();
        // A thread that runs a task must not wait, not even for another queue: the worker then ends by
        // itself.
        if let Some(thread) = thread.filter(|_| !is_in_task()) {
            // An error would be a panic of the worker's own code, since tasks' panics are caught. Nobody
            // could handle it.
            let _ = thread.join();
        }
    }

    fn debug_info(&self) -> String {
        let (state, depth) =
            (if self.is_idle() { "idle" } else { "running" }, self.pending().queue().depth());
        let failure = self.state.failure().map_or_else(String::new, |failure| format!(", {failure}"));
        format!("{}: {state}, {depth} tasks waiting{failure}", self.state.stream())
    }
}

/// Closes the queue and ends its thread, unless the driver has done so already.
impl Drop for MulticoreQueue {
    fn drop(&mut self) {
        self.close();
    }
}
