//! The CPU device: host memory, kernels in this process, and a scheduler: [`Multicore`] runs a worker thread per stream,
//! [`Inline`] runs everything on the caller's thread.
//!
//! # Should I be using this crate?
//!
//! To run host code through `device-runtime`: yes, [`Cpu::multicore`] is a driver for it. To compute something: use
//! `arrayjit`, where it is the backend `multicore`.
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
//! * Both schedulers run the same tasks in the same order per stream and give the same bits; kernels may be split over
//!   threads, which the kernel contract says cannot be observed.
//! * A panic in a task fails the stream, and whoever waits gets it as an error; no thread dies of it.
//! * An idle worker sleeps. Once warm, launching and waiting allocate nothing.
//!
//! The protocol between producers, workers and waiters is described in `src/README.md` of this crate.
#![deny(unsafe_code)]

mod backlog; // the tasks of a lane with a worker, and helping with them
mod cpu; // the driver
mod crew; // splitting one kernel over idle threads
mod event; // flags with waiters
mod inline; // the scheduler without threads
mod job; // the parts of a split kernel
mod lane; // what schedulers implement: lanes that take tasks
#[cfg(all(test, feature = "loom"))]
mod model; // the protocol under a model checker
mod multicore; // the scheduler with a worker per stream
mod pace; // how long kernels take
mod pages; // memory from the system
mod queue; // bounded hand-over to one consumer at a time
mod raw; // memory and kernel calls: most of the crate's unsafe code
mod seat; // a helper's place: what it is offered, and its sleep
mod spare; // events used again
mod sync; // locks and atomics, in one place
mod task; // what lanes run
mod timeline; // what is told to whoever draws one

pub use crate::cpu::{Config, Cpu, MAX_THREADS};
pub use crate::inline::Inline;
pub use crate::lane::{Lane, LaneState, Scheduler};
pub use crate::multicore::Multicore;
pub use crate::task::Task;
