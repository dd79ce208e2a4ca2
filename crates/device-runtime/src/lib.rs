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
//! | makes every reader of a node fail if the task that should have written the node failed | records the first failure of a stream and passes it to every later event |
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

// For the authors of drivers.
pub mod check; // which parameters a driver accepts
mod checked; // arguments of driver calls, checked when they are made
mod direct; // calls a driver without a `Device`, in tests
mod driver; // the `Driver` trait and its handles
mod error; // the errors of drivers and of the runtime
mod fault; // a driver that injects failures
mod memory_budget; // the account of a driver's memory
mod null; // a driver that executes nothing
#[cfg(test)]
mod race; // a driver that detects data races, in tests
mod stream_registry; // the live streams of a device
// For users.
mod context; // the memory of nodes on a stream
mod copy; // transfers between contexts
mod device; // a device, its streams and its memory accounting
mod event; // events of streams
mod frontier; // dependencies between linked routines
mod hazard; // conflicting uses of a buffer
mod host; // the host arrays of nodes
mod host_access; // functions of the user on the values of nodes
mod inside; // which threads are running a task
mod link; // links code in a context
mod merge; // merge buffers and the kernels that read them
mod order; // switches off classes of waits, in tests
mod placement; // memory modes that links settle
mod plan; // packs allocations into pools
mod pool; // pools and buffers
mod report; // memory reports
mod residence; // which copy of one node is current
mod routine; // linked routines
mod sharing; // the sharing of nodes between streams
mod stream; // streams
mod submit; // submits tasks to drivers
mod task; // sequences of scheduling functions
mod timing; // the times of kernel calls, for profiles
mod transfer; // transfers between host arrays and nodes

pub use crate::checked::{
    BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, DeviceOperation,
    FillTask, HostAccessTask, HostReadback, KernelArgs, LaunchTask, LoadedKernel, LoadedModule, MemoryRange,
    SequenceTask, SharedMemory,
};
pub use crate::context::Context;
pub use crate::copy::MergeBufferUse;
pub use crate::device::Device;
pub use crate::direct::DirectDriver;
pub use crate::driver::{
    BoundHandle, Driver, DriverDescription, EventHandle, HostTask, KernelHandle, Launched, Location, Mark,
    PoolHandle, PoolId, SequenceHandle, StreamHandle, StreamStrategy, WaitKind,
};
pub use crate::error::{DriverError, Failure, RunError};
pub use crate::event::Event;
pub use crate::fault::{FaultCounts, FaultDevice, FaultPlan};
pub use crate::frontier::{Dependency, LinkOrder};
pub use crate::hazard::{Hazard, PendingUse};
pub use crate::host::{Host, HostOptions};
pub use crate::inside::run_task;
pub use crate::memory_budget::{MemoryBudget, MemoryReservation};
pub use crate::null::NullDevice;
pub use crate::plan::{PoolPlan, TooLarge, plan_pool_segments};
pub use crate::report::{MemoryReport, MemoryUse, PoolItem, PoolUse};
pub use crate::residence::Prepare;
pub use crate::routine::LinkedRoutine;
pub use crate::stream::{Stream, StreamId};
pub use crate::stream_registry::{PolledStream, StreamRegistry, check_owner};
pub use crate::task::Task;
pub use crate::timing::{CallTime, KernelTimer, RunTimes};
pub use crate::transfer::Transfer;

tnode::debug_as_display!(DriverError, RunError, Failure, TooLarge);
