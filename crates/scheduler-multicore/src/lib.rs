#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bounded_queue;
mod cpu;
mod event;
mod event_free_list; // reused events
mod inline;
#[cfg(all(test, feature = "loom"))]
mod model;
mod multicore;
mod pages;
mod pending_tasks;
mod placement;
mod queue_state;
mod raw;
mod running_time_estimate; // how long kernels take
mod scheduler;
mod split_run;
mod sync;
mod task;
mod thread_pool;
mod timeline;
mod worker_slot;

pub use crate::cpu::{Cpu, CpuConfig, MAX_THREADS};
pub use crate::inline::Inline;
pub use crate::multicore::Multicore;
pub use crate::queue_state::QueueState;
pub use crate::scheduler::{Scheduler, StreamQueue};
pub use crate::task::QueuedTask;
