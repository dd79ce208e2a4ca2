//! The contract of a device: what the runtime asks of it, in some thirty methods, six of which have a default.
//!
//! A driver stands for one device. The runtime passes the handles that the driver itself made; a handle is
//! opaque to the runtime, so a driver puts into it whatever it likes.
//!
//! # What a driver owes
//!
//! * The tasks of one stream (launches, copies, fills, records, waits) take effect in the order they were
//!   handed over.
//! * Handing over is asynchronous or not, as the driver likes; it may block while a queue is full, but not on
//!   other streams' progress beyond the waits it was told to make.
//! * Memory, code and host arrays that a pending task uses stay alive until the task is done, whatever is
//!   dropped meanwhile.
//! * The first failure of a stream fails every later task of it without running it, until the stream is
//!   reset.
//! * All methods may be called from any thread.
//!
//! # What a driver may trust
//!
//! A value of a [checked type](crate::MemoryRange) is the proof of its checks: ranges lie in their memory, kernels
//! get the memory that their ABI asks for, bindings are within their ranges, and conflicting tasks are ordered. A
//! driver checks facts that the runtime cannot know: handles of other drivers, lost devices, and the limits of its
//! device.

use std::{any::Any, fmt, sync::Arc};

use codegen_core::{Artifact, Caps};
use tnode::HostArray;

use crate::{
    checked::{CopyInTask, CopyOutTask, CopyTask, FillTask, KernelArgs, LaunchTask, SequenceTask},
    error::DriverError,
};

/// A device's implementation. See the [crate's front page](crate) for the division of duties.
///
/// # Safety
///
/// Safe programs rely on an implementation for the absence of data races and of accesses outside of memory.
/// It vouches that
///
/// * memory that [`alloc_pool`](Driver::alloc_pool) returns has as many bytes as were asked for, is aligned to
///   [`Caps::alignment`] and to 64 bytes at least, is initialised, and is nobody else's;
///   [`import`](Driver::import) returns memory as long as the exported one, and as aligned; so does
///   [`adopt`](Driver::adopt), as long as the array;
/// * all shares of a handle, and of the memory behind it, stay valid until the last is dropped and the last
///   task that uses it is done;
/// * a kernel handle stands for the kernel at its position of the artifact that was loaded, and a launch runs
///   that kernel on the ranges it was bound to, once, and touches nothing else;
/// * a task touches memory only after all tasks handed to its stream before it, and after every event that
///   its stream was made to [wait](Driver::wait) for before it; an event is done, be it by failing, only after
///   everything that it was recorded behind;
/// * a task that it answers with an error does not run; one that it hands over in part fails its stream, and is
///   answered as handed over, so that what it writes counts as written;
/// * a task that it is handed goes to that stream and nowhere else.
///
/// ```compile_fail,E0200
/// struct Careless;
/// impl device_runtime::Driver for Careless {
///     // vouches for nothing
/// }
/// ```
#[allow(unsafe_code, reason = "declares an unsafe trait; nothing unsafe happens here")]
pub unsafe trait Driver: Send + Sync {
    /// The device's kind in one word, such as `multicore`.
    fn name(&self) -> &str;

    /// What it can hold and compute.
    fn caps(&self) -> &Caps;

    /// Facts that do not change while the process runs, for people: name and value.
    fn static_properties(&self) -> Vec<(&'static str, String)>;

    /// Chooses how many streams to suggest. The first call counts, later ones do nothing.
    fn initialize(&self, strategy: StreamStrategy);

    /// Whether [`Driver::initialize`] was called.
    fn is_initialized(&self) -> bool;

    /// How many streams make good use of the device under the strategy chosen.
    fn suggested_num_streams(&self) -> usize;

    /// Bytes that pools occupy now, those that pending tasks still hold included.
    fn used_memory(&self) -> usize;

    /// What goes on in a stream, for people; no stable format.
    fn debug_info(&self, stream: &StreamHandle) -> String;

    /// Makes a pool of initialised bytes of any value, aligned to [`Caps::alignment`]. `pool` is its name in
    /// messages. Its memory is freed with the last share of the handle, or with the last task that uses it.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfMemory`]; nothing is left allocated.
    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError>;

    /// Lets other drivers of the process reach a pool: the handle returned is for their [`Driver::import`].
    /// The memory lives as long as either handle, or an imported one.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoPeerAccess`] where nobody else can reach the memory, which is the default.
    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        let _ = memory;
        Err(DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "its pools" })
    }

    /// Reaches memory that is there already: a pool that another driver exported, or a host array (the handle
    /// then holds a [`HostArray`]), which no task will write. Takes no memory. Imports of one memory are the
    /// same handle, or are only read.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoPeerAccess`] where the device cannot reach that memory, which is the default; the
    /// runtime copies then.
    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        let _ = memory;
        Err(DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "memory of others" })
    }

    /// Makes a pool of a host array's memory, without a copy: the array's bytes are what the pool holds, and tasks may
    /// write it. It counts as memory of the device. A driver that cannot, or not this time, gives the array back, which is
    /// the default; the runtime copies then.
    ///
    /// # Errors
    ///
    /// The array.
    fn adopt(&self, array: Box<HostArray>) -> Result<PoolHandle, Box<HostArray>> {
        Err(array)
    }

    /// Makes an in-order queue, which reports failures under the name given.
    ///
    /// # Errors
    ///
    /// Where the platform gives no thread or queue.
    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError>;

    /// Ends a stream after its pending tasks. May wait for them.
    fn drop_stream(&self, stream: StreamHandle);

    /// Waits until the stream is idle and forgets its failure, so that it takes tasks again. Its events are
    /// done then, and say so: one that failed before has failed.
    ///
    /// # Errors
    ///
    /// Where the device is beyond help.
    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError>;

    /// Whether everything handed over so far is done.
    fn is_idle(&self, stream: &StreamHandle) -> bool;

    /// Makes an artifact's code ready to run.
    ///
    /// # Errors
    ///
    /// [`DriverError::UnsupportedPayload`] for code of another kind of device.
    fn load(&self, artifact: &Artifact) -> Result<ModuleHandle, DriverError>;

    /// The kernel at a position of the artifact.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoSuchEntry`], a module of another driver.
    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError>;

    /// Fixes a kernel's memory: one range per memory parameter. Done once per link, so that launches resolve
    /// nothing.
    ///
    /// # Errors
    ///
    /// A kernel or memory of another driver, and limits of the device.
    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError>;

    /// Enqueues the whole of a kernel (`0..extent`), with one value per static index.
    ///
    /// # Errors
    ///
    /// A failed stream, a queue that only the caller could drain.
    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError>;

    /// Makes kernels ready to be launched together, in this order, many times over; done once per link, as
    /// [`Driver::bind`]. None where the device gains nothing by that, which is the default: the runtime
    /// launches them one by one.
    ///
    /// # Errors
    ///
    /// A kernel of another driver; a lost device.
    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        let _ = kernels;
        Ok(None)
    }

    /// Enqueues all kernels of a sequence, each behind the one before. `false` where that does not work out
    /// this time, for whatever reason: nothing was enqueued then, and the runtime launches the kernels one by
    /// one, which says what is wrong with which.
    ///
    /// # Errors
    ///
    /// As [`Driver::launch`], and nothing was enqueued.
    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool, DriverError> {
        let _ = (stream, task);
        Ok(false)
    }

    /// Enqueues filling memory with zeros.
    ///
    /// # Errors
    ///
    /// As [`Driver::launch`].
    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError>;

    /// Enqueues copying a host array to memory. The task owns its share of the array.
    ///
    /// # Errors
    ///
    /// As [`Driver::launch`].
    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError>;

    /// Enqueues copying memory to a host array. The host takes the array after the event.
    ///
    /// # Errors
    ///
    /// As [`Driver::launch`].
    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError>;

    /// Enqueues copying within the device, or from memory that was imported.
    ///
    /// # Errors
    ///
    /// As [`Driver::launch`].
    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError>;

    /// Enqueues a function of the host's, which runs once, on a thread of the driver's choice.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoHostTasks`] where streams run kernels and copies alone, which is the default; as
    /// [`Driver::launch`].
    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<(), DriverError> {
        let _ = (stream, task);
        Err(DriverError::NoHostTasks { driver: self.name().to_owned() })
    }

    /// An event that is done when everything handed to the stream so far is done, or failed.
    ///
    /// # Errors
    ///
    /// A queue that only the caller could drain; a lost device.
    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError>;

    /// Makes the stream's later tasks start after the event. Does not wait on the caller's thread.
    ///
    /// # Errors
    ///
    /// As [`Driver::record`]; [`DriverError::ForeignHandle`] for an event of another driver that the stream
    /// cannot wait for, after which the runtime waits on the caller's thread.
    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: After) -> Result<(), DriverError>;

    /// Marks a place in the stream's work, for a timeline; called only while somebody listens. By default
    /// nothing happens.
    ///
    /// # Errors
    ///
    /// As [`Driver::record`].
    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<(), DriverError> {
        let _ = (stream, mark);
        Ok(())
    }

    /// Whether the event is done; cheap.
    ///
    /// # Errors
    ///
    /// The failure, if the event is done by failing.
    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError>;

    /// Waits on the caller's thread until the event is done.
    ///
    /// # Errors
    ///
    /// The failure; or that the caller is the one who would have to make progress.
    fn sync(&self, event: &EventHandle) -> Result<(), DriverError>;
}

/// Memory of a device by number, counted from 1 in the order of allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}", self.0)
    }
}

/// Where a buffer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Which pool.
    pub pool: PoolId,
    /// Bytes from its beginning.
    pub offset: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} offset {}", self.pool, self.offset)
    }
}

/// A place in a stream's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// What follows is this; the text is the user's name for it.
    Begin(Arc<str>),
    /// What began last ends here.
    End,
}

/// What a wait protects, which decides whether a failure crosses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum After {
    /// The later tasks read what was done before the event: its failure is theirs too.
    Data,
    /// The later tasks only overwrite what was used before the event: its failure is no concern.
    Order,
}

/// How many streams to suggest for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamStrategy {
    /// One per device; parallelism comes from devices and from inside kernels.
    #[default]
    OnlyDevicesParallel,
    /// As many as let transfers overlap with computing.
    ForParallelCopying,
    /// As many as the device can run at once.
    MostParallelStreams,
}

/// A function of the host's among the tasks of a stream. An error, or a panic, fails the stream.
pub struct HostTask {
    /// What to call it in messages.
    pub name: String,
    /// What it does.
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
            /// Wraps what the driver needs to find again.
            pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
                $name(Arc::new(value))
            }

            /// What the driver put in.
            ///
            /// # Errors
            ///
            /// [`DriverError::ForeignHandle`] where another driver made the handle.
            pub fn get<T: Send + Sync + 'static>(&self) -> Result<&T, DriverError> {
                self.0.downcast_ref().ok_or(DriverError::ForeignHandle { what: $what })
            }

            /// A share of what the driver put in, for a task to own.
            ///
            /// # Errors
            ///
            /// [`DriverError::ForeignHandle`] where another driver made the handle.
            pub fn share<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, DriverError> {
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
    /// A host array, for a driver that reads host memory in place.
    pub(crate) fn of_host(array: Arc<HostArray>) -> PoolHandle {
        PoolHandle(array)
    }

    /// Whether both are shares of one value, and so of one memory.
    pub fn is_same(&self, other: &PoolHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

handles! {
    /// A driver's stream.
    StreamHandle "stream";
    /// Memory of a driver, or what it lets others reach of it.
    PoolHandle "memory";
    /// A driver's event.
    EventHandle "event";
    /// A driver's loaded artifact.
    ModuleHandle "module";
    /// A driver's kernel of a loaded artifact.
    KernelHandle "kernel";
    /// A driver's kernel with its memory fixed.
    BoundHandle "bound kernel";
    /// Bound kernels that a driver launches together.
    SequenceHandle "sequence of kernels";
}
