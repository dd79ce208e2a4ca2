//! Devices, streams, events, contexts, pools and routines over the [`Driver`] contract.
//!
//! # Should I be using this crate?
//!
//! To support a new device in arrayjit: implement [`Driver`]; [`NullDevice`] is a template, and
//! [`DirectDriver`] calls a driver in tests. To test how a program handles failures: wrap its driver in a
//! [`FaultDevice`]. To run compiled code without the `arrayjit` facade: yes. To compute something: use
//! `arrayjit`.
//!
//! # Division of duties
//!
//! | The runtime (this crate) | The driver (yours) |
//! |---|---|
//! | decides what is allocated where, and names it ([`PoolId`], [`Location`]) | owns the bytes and returns handles to them; **base addresses never leave it** |
//! | orders every hazard (read after write, write after read, write after write) between streams and the host | runs the tasks of one stream in order, and executes the requested waits |
//! | checks every argument once: bounds, overlap, alignment, sizes, bindings, read-only memory; values of [checked types](MemoryRange) are the proof | trusts these proofs; checks handles of other drivers, the limits of its device, and whether the device is lost; reports errors as [`DriverError`] |
//! | checks element types, shapes and contexts; names the user's objects in errors | |
//! | remembers which event last wrote and read each buffer | keeps memory, code and arguments alive until the tasks that use them are done |
//! | turns a failed event into an error of the reader | records the first failure of a stream and passes it to every later event |
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use device_runtime::{Context, Device, NullDevice};
//! use tnode::{DType, HostArray, TensorNode};
//!
//! let device = Device::new(Arc::new(NullDevice::new()), 0);
//! let x = TensorNode::builder("x").dims([4]).dtype(DType::F32).build()?;
//! let context = Context::new(&device.new_stream()?);
//! let context = context.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3., 4.], [4])?)?;
//! assert!(context.contains(&x));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * Every type is usable from any thread. Locks are taken in one order: the hazard locks of a submission's
//!   buffers by ascending [`Location`], then the driver's locks. Every other lock is taken alone and briefly.
//! * An event can be awaited only after it is recorded, so waits cannot form a cycle.
//! * Dropping handles never frees memory in use, frees everything exactly once, and does not wait. One
//!   exception: dropping the last handle of a stream (contexts and routines hold one) waits for the stream's
//!   pending tasks.
//! * A thread that runs a task never waits: a call that would make it wait fails with
//!   [`DriverError::SelfWait`]. So tasks that use the runtime do not deadlock with threads that submit tasks.
//! * No function panics on any input.
#![deny(unsafe_code)]

// Below: what a device author implements.
pub mod check; // what a kernel's parameters are
mod checked; // what drivers trust
mod direct; // a driver by hand
mod driver; // the Driver contract
mod error; // what can go wrong, on both sides of it
mod fault; // the driver that makes things go wrong
mod null; // the driver that runs nothing
#[cfg(test)]
mod race; // whether what conflicts is ordered
// Above: what users hold.
mod context; // nodes -> buffers, per stream
mod copy; // context -> context, through merge buffers or not
mod device; // identity, streams, memory accounting
mod event; // a point in a stream
mod frontier; // which routine was linked after which
mod hazard; // who must wait for whom
mod host; // host arrays in step with devices
mod inside; // which threads are inside a task
mod link; // code + context -> routine
mod merge; // merge buffers, and routines that read them
mod order; // classes of waits, which tests can leave out
mod placement; // memory modes that links settle
mod plan; // packing allocations into pools
mod pool; // owned device memory
mod report; // what lies where
mod residence; // the host array of one node
mod routine; // the linked callable
mod sharing; // which streams use one buffer
mod stream; // in-order queue on a device
mod submit; // ordered hand-over of tasks to the driver
mod task; // things to schedule, combined
mod transfer; // host <-> device

pub use crate::checked::{
    BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, FillTask, HostReadback, KernelArgs,
    LaunchTask, LoadedKernel, LoadedModule, MemoryRange, SequenceTask, SharedMemory,
};
pub use crate::context::Context;
pub use crate::copy::MergeBufferUse;
pub use crate::device::Device;
pub use crate::direct::DirectDriver;
pub use crate::driver::{
    BoundHandle, Driver, EventHandle, HostTask, KernelHandle, Location, Mark, ModuleHandle, PoolHandle,
    PoolId, SequenceHandle, StreamHandle, StreamStrategy, WaitKind,
};
pub use crate::error::{DriverError, Error, Failure};
pub use crate::event::Event;
pub use crate::fault::{FaultCounts, FaultDevice, FaultPlan};
pub use crate::frontier::{Dependency, LinkOrder};
pub use crate::hazard::{Hazard, PendingUse};
pub use crate::host::{Host, HostOptions};
pub use crate::inside::run_task;
pub use crate::null::NullDevice;
pub use crate::plan::{PoolPlan, TooLarge, plan_pool_segments};
pub use crate::report::{MemoryReport, MemoryUse, PoolItem, PoolUse};
pub use crate::residence::Prepare;
pub use crate::routine::Routine;
pub use crate::stream::{Stream, StreamId};
pub use crate::task::Task;
pub use crate::transfer::Transfer;

tnode::debug_as_display!(DriverError, Error, Failure, TooLarge);
