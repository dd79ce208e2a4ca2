#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

// For the authors of drivers.
pub mod check;
mod checked; // arguments of driver calls, checked when they are made
mod direct;
mod driver; // the `Driver` trait and its handles
mod error;
mod fault;
mod memory_budget;
mod null;
#[cfg(test)]
mod race; // a driver that detects data races, in tests
mod stream_registry;
// For users.
mod context;
mod copy;
mod device;
mod event;
mod frontier;
mod hazard; // conflicting uses of a buffer
mod host;
mod host_access;
mod inside;
mod link;
mod merge;
mod order;
mod placement; // memory modes that links settle
mod plan;
mod pool;
mod report;
mod residence; // which copy of one node is current
mod routine;
mod sharing;
mod stream;
mod submit;
mod task;
mod timing;
mod transfer;

pub use crate::checked::{
    BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, DeviceOperation,
    FillTask, HostAccessTask, HostReadback, KernelArgs, LaunchTask, LoadedKernel, LoadedModule, MemoryRange,
    SequenceTask, SharedMemory,
};
pub use crate::context::Context;
pub use crate::copy::MergeBufferUse;
pub use crate::device::{DEFAULT_POOL_CAP, Device};
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
pub use crate::report::{MemoryReport, MemoryUse, PoolItem, PoolUse};
pub use crate::residence::Prepare;
pub use crate::routine::LinkedRoutine;
pub use crate::stream::{Stream, StreamId};
pub use crate::stream_registry::{PolledStream, StreamRegistry, check_owner};
pub use crate::task::Task;
pub use crate::timing::{CallTime, KernelTimer, LaunchSize, RunTimes};
pub use crate::transfer::{PendingArray, Transfer};

tnode::debug_as_display!(DriverError, RunError, Failure);
