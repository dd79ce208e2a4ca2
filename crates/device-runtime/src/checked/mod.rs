//! Checked arguments: the types that the runtime passes to a driver, and that a driver trusts.
//!
//! A value of these types is the proof of its checks. Their fields are private, and only the runtime makes
//! them, each by one constructor that checks:
//!
//! | Type | Proof |
//! |---|---|
//! | [`MemoryRange`] | the range lies in memory that the driver made or imported; it states whether tasks may write it |
//! | [`KernelArgs`] | one range per memory parameter, with the parameter's size and aligned; written ranges are writable and overlap no other |
//! | [`LaunchTask`], [`SequenceTask`] | one value per static index, each within its range |
//! | [`FillTask`], [`CopyInTask`], [`CopyOutTask`], [`CopyTask`] | destinations are writable, host arrays have the size of the range, ranges of a copy do not overlap |
//! | [`HostAccessTask`], [`DeviceAccessTask`] | all ranges are writable and do not overlap |
//!
//! # Order
//!
//! A task proves one further fact: it is **ordered against all conflicting tasks**. While a submitted task
//! runs on its stream, no other task writes the bytes that it reads, and no other task accesses the bytes
//! that it writes. Two tasks are ordered if they are on one stream, or if the stream of the later one
//! [waits](crate::Driver::wait) for an event that was recorded after the earlier one. No check of a single
//! task can establish that, so the constructors of tasks are unsafe. The runtime calls them in `submit`,
//! after it has made the stream wait; all other code uses [`DirectDriver`](crate::DirectDriver).
//!
//! The method that submits a task consumes it, and a task cannot be cloned, so one proof starts one task.
//!
//! Other crates can neither make nor change one:
//!
//! ```compile_fail,E0451
//! use device_runtime::{MemoryRange, PoolId};
//! fn longer(range: MemoryRange) -> MemoryRange {
//!     MemoryRange { bytes: 1 << 40, ..range }
//! }
//! ```
//!
//! ```compile_fail,E0599
//! use device_runtime::{Driver, FillTask, StreamHandle};
//! fn twice(driver: &dyn Driver, stream: &StreamHandle, task: FillTask) {
//!     drop(driver.memset_zero(stream, task.clone()));
//!     drop(driver.memset_zero(stream, task));
//! }
//! ```
#![allow(unsafe_code, reason = "declares the constructors of tasks, whose callers vouch for order")]

mod kernel;
mod memory;
mod task;
#[cfg(test)]
mod tests;

pub use kernel::{BoundKernel, BoundSequence, KernelArgs, LoadedKernel, LoadedModule};
pub(crate) use memory::PoolMemory;
pub use memory::{MemoryRange, SharedMemory};
pub(crate) use task::HostFunction;
pub use task::{
    CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, DeviceOperation, FillTask, HostAccessTask,
    HostReadback, LaunchTask, SequenceTask,
};
