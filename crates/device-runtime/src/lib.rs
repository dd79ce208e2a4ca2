#![doc = include_str!("../README.md")]
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
pub use crate::timing::{CallTime, KernelTimer, LaunchSize, RunTimes};
pub use crate::transfer::{PendingArray, Transfer};

tnode::debug_as_display!(DriverError, RunError, Failure, TooLarge);
