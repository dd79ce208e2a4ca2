#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bounded_queue; // many producers, one consumer at a time
mod cpu; // the driver
mod event; // flags on which threads can wait
mod event_free_list; // reused events
mod inline; // the scheduler without threads
#[cfg(all(test, feature = "loom"))]
mod model; // the protocol under a model checker
mod multicore; // the scheduler with a worker per stream
mod pages; // memory from the system
mod pending_tasks; // submitting tasks to a worker, and running them on callers' threads
mod queue_state; // a queue's identity and failure
mod raw; // memory and kernel calls: most of the crate's unsafe code
mod running_time_estimate; // how long kernels take
mod scheduler; // the traits of schedulers and their queues
mod split_run; // one run of a kernel in chunks
mod sync; // locks and atomics, in one place
mod task; // the tasks of queues
mod thread_pool; // splitting one kernel over idle threads
mod timeline; // reports for timelines
mod worker_slot; // a pool worker's task and its sleep

pub use crate::cpu::{Config, Cpu, MAX_THREADS};
pub use crate::inline::Inline;
pub use crate::multicore::Multicore;
pub use crate::queue_state::QueueState;
pub use crate::scheduler::{Scheduler, StreamQueue};
pub use crate::task::QueuedTask;
