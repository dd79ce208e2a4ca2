//! The CPU device: memory pools in host memory, kernels in this process, and one of two schedulers.
//! [`Multicore`] runs a worker thread per stream and splits kernels over a thread pool; [`Inline`] runs every
//! task on the caller's thread.
//!
//! # Should I be using this crate?
//!
//! To run host code through `device-runtime`: yes, [`Cpu::multicore`] is a driver for it. To compute
//! something: use `arrayjit`, where it is the backends `multicore` and `inline`.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use device_runtime::{Context, Device};
//! use scheduler_multicore::{Config, Cpu};
//! use tnode::{DType, HostArray, TensorNode};
//!
//! let device = Device::new(Arc::new(Cpu::multicore(Config::default())), 0);
//! let x = TensorNode::builder("x").dims([3]).dtype(DType::F32).build()?;
//! let context = Context::new(&device.new_stream()?);
//! let context = context.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3.], [3])?)?;
//! assert_eq!(context.to_host(&x)?.values(), [1., 2., 3.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * Both schedulers run the tasks of a stream in the same order and compute the same bits. The kernel
//!   contract guarantees that splitting a kernel over threads does not change its results.
//! * A panic in a task fails its stream, and threads that wait for the stream get it as an error. It ends no
//!   thread.
//! * Idle workers sleep. Launching a kernel and waiting for it allocate nothing after the first runs.
//!
//! The protocol between producers, workers and waiters is described in `src/README.md` of this crate.
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
