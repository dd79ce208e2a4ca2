//! Checked arguments: the types that the runtime hands to a driver, and that a driver trusts.
//!
//! A value of these types is the proof of its checks. Their fields are private and only the runtime makes them, each with one
//! constructor that checks:
//!
//! | Type | What it proves |
//! |---|---|
//! | [`MemoryRange`] | the range lies in memory that the driver made or imported; whether tasks may write it |
//! | [`KernelArgs`] | one range per memory parameter, as long as the parameter and aligned; written ranges are writable and overlap no other |
//! | [`LaunchTask`], [`SequenceTask`] | one value per static index, each within its range |
//! | [`FillTask`], [`CopyInTask`], [`CopyOutTask`], [`CopyTask`] | destinations are writable, host arrays are as long as the range, ranges of a copy do not overlap |
//!
//! # Order
//!
//! A task proves one thing more: it is **ordered against all conflicting tasks**. While a task runs that was handed to the
//! stream it was made for, no other task writes the bytes it reads, and no other task touches the bytes it writes. Tasks are
//! ordered by being on one stream, or by [`Driver::wait`](crate::Driver::wait) on an event recorded behind the other. No check
//! can establish that for a single task, so the constructors of tasks are unsafe: the runtime calls them where it has made the
//! stream wait (`submit`), everybody else through [`DirectDriver`](crate::DirectDriver).
//!
//! A task is consumed by the method that it is handed to, and cannot be cloned, so one proof starts one task.
//!
//! Nobody else can make one, or change one:
//!
//! ```compile_fail,E0451
//! use device_runtime::{MemoryRange, PoolId};
//! fn longer(range: MemoryRange) -> MemoryRange {
//!     MemoryRange { bytes: 1 << 40, ..range }
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn twice(driver: &dyn device_runtime::Driver, stream: &device_runtime::StreamHandle, task: device_runtime::FillTask) {
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
pub use task::{CopyInTask, CopyOutTask, CopyTask, FillTask, HostLanding, LaunchTask, SequenceTask};
