//! The contract of a device: 20 required methods, and fourteen with a default.
//!
//! A driver represents one device. The runtime passes back the handles that the driver made. The runtime
//! cannot look into a handle, so a driver may store anything in it.
//!
//! # Duties of a driver
//!
//! * The tasks of one stream (launches, copies, fills, records, waits) take effect in the order in which they
//!   were submitted.
//! * Submission may be asynchronous or not. It may block while a queue is full, but not on the progress of
//!   other streams, except for the waits that it was asked to make.
//! * Memory, code and host arrays that a pending task uses stay alive until the task is done, whatever is
//!   dropped meanwhile.
//! * After the first failure of a stream, every later task of it fails without running, until the stream is
//!   reset.
//! * All methods may be called from any thread.
//!
//! [`MemoryBudget`](crate::MemoryBudget) counts the bytes in use and enforces a limit;
//! [`StreamRegistry`](crate::StreamRegistry) lists the streams in use. [`NullDevice`](crate::NullDevice) is a
//! template.
//!
//! # Facts that a driver may trust
//!
//! A value of a [checked type](crate::MemoryRange) proves its checks: ranges lie in their memory, kernels get
//! the memory that their ABI requires, bindings are within their ranges, and conflicting tasks are ordered. A
//! driver checks facts that the runtime cannot know: handles of other drivers, lost devices, and the limits
//! of its device.

use std::{any::Any, fmt, sync::Arc};

use codegen_core::{Artifact, Caps};
use tnode::HostArray;

use crate::{
    checked::{
        CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, FillTask, HostAccessTask, KernelArgs,
        LaunchTask, SequenceTask,
    },
    error::{DriverError, Result},
    timing::KernelTimer,
};

/// A device's implementation. The [crate's front page](crate) has the division of duties.
///
/// # Safety
///
/// Safe programs rely on an implementation for the absence of data races and of accesses outside of memory.
/// It guarantees that
///
/// * memory that [`alloc_pool`](Driver::alloc_pool) returns has the requested size, is aligned to
///   [`Caps::alignment`] and to 64 bytes at least, is initialized, and is disjoint from all other memory;
///   [`import`](Driver::import) returns memory with the size and alignment of the exported memory, and
///   [`adopt`](Driver::adopt) with the size of the array;
/// * all clones of a handle, and the memory behind it, stay valid until the last is dropped and the last task
///   that uses it is done;
/// * a kernel handle stands for the kernel at its position in the loaded artifact, and a launch runs that
///   kernel once, on the ranges to which it was bound, and accesses nothing else;
/// * a task accesses memory only after all tasks submitted to its stream before it, and after every event
///   that its stream was made to [wait](Driver::wait) for before it; an event is done, successfully or not,
///   only after all tasks before it;
/// * if a call returns an error, its task does not run; if only a part of a task is submitted, the stream
///   fails and the call succeeds, so that the runtime treats the destination of the task as written;
/// * a task is submitted to the given stream and to no other.
///
/// ```compile_fail,E0200
/// struct Careless;
/// impl device_runtime::Driver for Careless {
///     // guarantees nothing
/// }
/// ```
#[allow(unsafe_code, reason = "declares an unsafe trait; nothing unsafe happens here")]
pub unsafe trait Driver: Send + Sync {
    /// The device's name, capabilities and properties. The same value in every call.
    fn description(&self) -> &DriverDescription;

    /// [`DriverDescription::name`].
    fn name(&self) -> &str {
        &self.description().name
    }

    /// [`DriverDescription::caps`].
    fn caps(&self) -> &Caps {
        &self.description().caps
    }

    /// [`DriverDescription::properties`].
    fn static_properties(&self) -> &[(&'static str, String)] {
        &self.description().properties
    }

    /// The number of streams that make good use of the device with a strategy.
    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize;

    /// Total size of pools in bytes, including freed pools that pending tasks use.
    fn used_memory(&self) -> usize;

    /// A description of a stream's state, for people; the format is not stable.
    fn debug_info(&self, stream: &StreamHandle) -> String;

    /// Makes a pool of initialized bytes of any value, aligned to [`Caps::alignment`]. `pool` is its name in
    /// messages. The memory is freed with the last clone of the handle, or with the last task that uses it.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfMemory`]; nothing is left allocated.
    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle>;

    /// Makes a pool accessible to other drivers of the process: they pass the returned handle to their
    /// [`Driver::import`]. The memory exists as long as one of the two handles, or a handle that was imported
    /// from them.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoPeerAccess`] if no other driver can access the memory, which is the default.
    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        let _ = memory;
        Err(DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "its pools" })
    }

    /// Makes existing memory accessible to the device: a pool that another driver exported, or a host array
    /// (the handle then has a [`HostArray`]), which no task will write. Allocates nothing. If the same memory
    /// is imported several times, either the driver returns clones of one handle, or no task writes the
    /// imported memory.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoPeerAccess`] if the device cannot access the memory, which is the default; the
    /// runtime then copies.
    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        let _ = memory;
        Err(DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "memory of others" })
    }

    /// Makes a pool of a host array's memory, without a copy: the pool has the array's bytes, and tasks may
    /// write it. It counts as memory of the device. A driver that cannot do that in general or for this array
    /// returns the array, which is the default; the runtime then copies.
    ///
    /// # Errors
    ///
    /// The unchanged array, if the driver did not take it.
    fn adopt(&self, array: Box<HostArray>) -> Result<PoolHandle, Box<HostArray>> {
        Err(array)
    }

    /// Makes an in-order queue, which reports failures under the given name.
    ///
    /// # Errors
    ///
    /// [`DriverError::Platform`] if the platform gives no thread or queue; [`DriverError::Lost`].
    fn new_stream(&self, name: &str) -> Result<StreamHandle>;

    /// Ends a stream after its pending tasks. May wait for them.
    fn drop_stream(&self, stream: StreamHandle);

    /// Waits until the stream is idle and clears its failure, so that it accepts tasks again. Its events are
    /// done then and keep their outcomes: an event that failed before stays failed.
    ///
    /// # Errors
    ///
    /// [`DriverError::Lost`], and errors of the wait.
    fn reset_stream(&self, stream: &StreamHandle) -> Result<()>;

    /// Whether everything submitted so far is done.
    fn is_idle(&self, stream: &StreamHandle) -> bool;

    /// Makes an artifact's code ready to run. Returns one handle per kernel, in the artifact's order.
    ///
    /// # Errors
    ///
    /// [`DriverError::UnsupportedPayload`] for code of another kind of device.
    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>>;

    /// Binds a kernel to its memory: one range per memory parameter. The runtime binds once per link, so that
    /// launches look nothing up.
    ///
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] for a kernel or memory of another driver; errors for limits of the
    /// device.
    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle>;

    /// Submits the whole of a kernel (`0..extent`), with one value per static index.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] on a failed stream; [`DriverError::SelfWait`] if only the calling thread could
    /// make room in the queue; [`DriverError::Lost`].
    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<()>;

    /// [`Driver::launch`] of the last kernel of a routine, followed by [`Driver::record`]. A driver overrides
    /// this if both together cost less than one after the other. The default only launches the kernel, and
    /// the runtime records the event.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`]. After an error nothing was submitted.
    fn launch_recorded(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<Launched> {
        self.launch(stream, task).map(|()| Launched::Unrecorded)
    }

    /// [`Driver::launch`] of a kernel whose time `timer` records. Returns false if the device cannot time
    /// kernels, which is the default: then nothing was submitted. A driver gives the same answer for all
    /// kernels of a routine.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`].
    fn launch_timed(&self, stream: &StreamHandle, task: LaunchTask<'_>, timer: KernelTimer) -> Result<bool> {
        let _ = (stream, task, timer);
        Ok(false)
    }

    /// Prepares kernels for being launched together, in this order, many times. The runtime does this once
    /// per link, like [`Driver::bind`]. None if the device gains nothing by it, which is the default: the
    /// runtime then launches the kernels one by one.
    ///
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] for a kernel of another driver; [`DriverError::Lost`].
    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>> {
        let _ = kernels;
        Ok(None)
    }

    /// Submits all kernels of a sequence, each after the one before. Returns false if that is not possible
    /// this time, for any reason: then nothing was submitted, and the runtime launches the kernels one by
    /// one, so that an error names the kernel at fault.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`]. After an error nothing was submitted.
    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool> {
        let _ = (stream, task);
        Ok(false)
    }

    /// Submits a task that fills memory with zeros.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`].
    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<()>;

    /// Submits a copy of a host array to memory. The task owns a reference to the array.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`].
    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<()>;

    /// Submits a copy of memory to a host array. The host takes the array once an event recorded after the
    /// copy is done.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`].
    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<()>;

    /// Submits a copy within the device, or from imported memory.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::launch`].
    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<()>;

    /// Submits a function of the user, which runs once, on a thread of the driver's choice.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoHostTasks`] if streams run only kernels and copies, which is the default; the errors
    /// of [`Driver::launch`].
    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<()> {
        let _ = (stream, task);
        Err(DriverError::NoHostTasks { driver: self.name().to_owned() })
    }

    /// Submits a function of the user that reads and writes memory in place. It runs once, on a thread of the
    /// driver's choice.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoHostTasks`] if the host cannot access the memory of the device, which is the default:
    /// the runtime then copies the values to the host and back. The errors of [`Driver::launch`].
    fn host_access(&self, stream: &StreamHandle, task: HostAccessTask) -> Result<()> {
        let _ = (stream, task);
        Err(DriverError::NoHostTasks { driver: self.name().to_owned() })
    }

    /// Submits an operation that this driver knows and the runtime does not, such as an exchange of values
    /// between devices by a library of the platform. It reads and writes memory in place.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoDeviceTasks`] if the driver knows no operations, which is the default;
    /// [`DriverError::ForeignHandle`] for an operation of another driver; the errors of [`Driver::launch`].
    fn device_access(&self, stream: &StreamHandle, task: DeviceAccessTask) -> Result<()> {
        let _ = (stream, task);
        Err(DriverError::NoDeviceTasks { driver: self.name().to_owned() })
    }

    /// Records an event that is done when everything submitted to the stream so far is done, or has failed.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] if only the calling thread could make room in the queue;
    /// [`DriverError::Lost`].
    fn record(&self, stream: &StreamHandle) -> Result<EventHandle>;

    /// Makes the stream's later tasks start after the event. Does not wait on the caller's thread.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::record`], and with [`DriverError::ForeignHandle`] for an event of another driver
    /// that the stream cannot wait for, whereupon the runtime waits on the caller's thread.
    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: WaitKind) -> Result<()>;

    /// Marks the begin or end of a section in the stream's tasks, for a timeline. The runtime calls this only
    /// while a timeline is recorded. Returns whether the driver reports marks: the default does not.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::record`].
    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<bool> {
        let _ = (stream, mark);
        Ok(false)
    }

    /// Whether the event is done; cheap.
    ///
    /// # Errors
    ///
    /// The failure, if the event is done but failed.
    fn is_done(&self, event: &EventHandle) -> Result<bool>;

    /// Waits on the caller's thread until the event is done.
    ///
    /// # Errors
    ///
    /// The failure; [`DriverError::SelfWait`] if only the calling thread could make progress.
    fn sync(&self, event: &EventHandle) -> Result<()>;
}

/// A kernel that [`Driver::launch_recorded`] has submitted.
#[derive(Clone, Debug)]
pub enum Launched {
    /// No event was recorded after the kernel.
    Unrecorded,
    /// This event was recorded after the kernel.
    Recorded(EventHandle),
    /// The kernel has run without a failure, on the calling thread, and so has everything before it on its
    /// stream. The event is done.
    Done(EventHandle),
}

/// Facts about a driver's device, which do not change while the process runs.
#[derive(Clone, Debug)]
pub struct DriverDescription {
    /// The device's kind in one word, such as `multicore`.
    pub name: String,
    /// The types, limits and alignment for which codegens compile code for the device.
    pub caps: Caps,
    /// Names and values of further facts, for people. The first one identifies the device, as in `device
    /// NVIDIA H200`; lists of backends show it.
    pub properties: Vec<(&'static str, String)>,
}

/// The number of a device's pool, counted from 1 in the order of allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}", self.0)
    }
}

/// The beginning of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The buffer's pool.
    pub pool: PoolId,
    /// Offset in the pool, in bytes.
    pub offset: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} offset {}", self.pool, self.offset)
    }
}

/// A mark in a stream's sequence of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Begins a section; the text is the user's name for it.
    Begin(Arc<str>),
    /// Ends the section that began last.
    End,
}

/// The reason for a wait, which decides whether it propagates a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKind {
    /// The later tasks read results of tasks before the event: a failure propagates to them.
    Data,
    /// The later tasks only overwrite memory that tasks before the event used: a failure does not affect
    /// them.
    Order,
}

/// A strategy for the number of streams to suggest for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamStrategy {
    /// One per device; parallelism comes from several devices and from inside of kernels.
    OnlyDevicesParallel,
    /// Enough streams to overlap transfers with computation.
    ForParallelCopying,
    /// As many streams as the device can run at once.
    #[default]
    MostParallelStreams,
}

/// A function of the user among the tasks of a stream. If it returns an error or panics, the stream fails.
pub struct HostTask {
    /// The task's name in messages.
    pub name: String,
    /// The function; an error is the message of the failure.
    pub run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

impl fmt::Debug for HostTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTask({})", self.name)
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Arc<dyn Any + Send + Sync>);

        impl $name {
            /// Wraps a value that the driver gets back with the handle.
            pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
                $name(Arc::new(value))
            }

            /// The value that the driver wrapped.
            ///
            /// # Errors
            ///
            /// [`DriverError::ForeignHandle`] if another driver made the handle.
            pub fn get<T: Send + Sync + 'static>(&self) -> Result<&T> {
                self.0.downcast_ref().ok_or(DriverError::ForeignHandle { what: $what })
            }

            /// A reference to the value that the driver wrapped, for a task to own.
            ///
            /// # Errors
            ///
            /// [`DriverError::ForeignHandle`] if another driver made the handle.
            pub fn share<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
                self.0.clone().downcast().map_err(|_| DriverError::ForeignHandle { what: $what })
            }
        }

        impl From<Arc<dyn Any + Send + Sync>> for $name {
            fn from(shared: Arc<dyn Any + Send + Sync>) -> Self {
                $name(shared)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!("<", $what, ">"))
            }
        }
    )*};
}

impl PoolHandle {
    /// A handle to a host array, for a driver that reads host memory in place.
    pub(crate) fn of_host(array: Arc<HostArray>) -> PoolHandle {
        PoolHandle(array)
    }

    /// Whether both are clones of one handle, and so refer to one memory.
    pub fn is_same(&self, other: &PoolHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

handles! {
    /// A stream of a driver.
    StreamHandle "stream";
    /// A driver's memory, or an exported form of it for other drivers.
    PoolHandle "memory";
    /// An event recorded on a driver's stream.
    EventHandle "event";
    /// A kernel of an artifact that a driver loaded.
    KernelHandle "kernel";
    /// A kernel that a driver bound to its memory.
    BoundHandle "bound kernel";
    /// Bound kernels that a driver launches together.
    SequenceHandle "sequence of kernels";
}
