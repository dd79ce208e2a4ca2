//! What can go wrong: [`DriverError`] below the contract, [`Error`] above it, and [`Failure`] for what went wrong while
//! nobody was looking.

use std::{fmt, sync::Arc};

use codegen_core::CodegenError;
use tnode::DType;

use crate::driver::{Location, PoolId};

/// Why a task failed after it was handed over. Shared by everything that depends on the task; cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(Arc<FailureParts>);

#[derive(Debug, PartialEq, Eq)]
struct FailureParts {
    stream: Arc<str>,
    task: String,
    message: String,
}

impl Failure {
    /// What failed on which stream, and what it said.
    pub fn new(stream: impl Into<Arc<str>>, task: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure(Arc::new(FailureParts { stream: stream.into(), task: task.into(), message: message.into() }))
    }

    /// The name of the stream whose task failed first, which names its device too.
    pub fn stream(&self) -> &str {
        &self.0.stream
    }

    /// The task: a kernel's name, or a kind of copy.
    pub fn task(&self) -> &str {
        &self.0.task
    }

    /// What was said: a panic's message, or the device's.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed on {}: {}", self.0.task, self.0.stream, self.0.message)
    }
}

/// What a driver reports.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// No room for a pool.
    #[error("out of device memory: {requested} bytes requested, {used} in use")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes pools occupied already.
        used: usize,
    },
    /// No room for what a kernel logs.
    #[error(
        "kernel `{kernel}`: out of device memory for its log: {requested} bytes requested, {used} in use"
    )]
    NoRoomForLog {
        /// Which kernel.
        kernel: String,
        /// Bytes asked for.
        requested: usize,
        /// Bytes occupied already.
        used: usize,
    },
    /// Memory that the device cannot reach, or cannot let others reach.
    #[error("device `{driver}` does not share {what}")]
    NoPeerAccess {
        /// Which driver.
        driver: String,
        /// Whose memory.
        what: &'static str,
    },
    /// A task of the host's for a stream that runs none.
    #[error("streams of device `{driver}` run no functions of the host")]
    NoHostTasks {
        /// Which driver.
        driver: String,
    },
    /// The device cannot run this kind of code.
    #[error("device `{driver}` does not load {payload} artifacts")]
    UnsupportedPayload {
        /// Which driver.
        driver: String,
        /// The kind of payload.
        payload: String,
    },
    /// The artifact has no such kernel.
    #[error("the artifact has no kernel at position {index}; it has {kernels}")]
    NoSuchEntry {
        /// The position asked for.
        index: usize,
        /// How many there are.
        kernels: usize,
    },
    /// A handle that another driver made.
    #[error("this {what} belongs to another driver")]
    ForeignHandle {
        /// The kind of handle.
        what: &'static str,
    },
    /// A pool that a [`DirectDriver`](crate::DirectDriver) never made, or freed.
    #[error("{pool} does not exist")]
    NoSuchPool {
        /// Which one.
        pool: PoolId,
    },
    /// A range that leaves its memory.
    #[error("{what}: bytes {offset}..+{bytes} lie outside its {size} bytes")]
    OutOfBounds {
        /// Whose memory.
        what: String,
        /// Where the range begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
        /// How long the memory is.
        size: usize,
    },
    /// Written memory that is also another parameter's.
    #[error("kernel `{kernel}`: parameters {first} and {second} overlap and one is written")]
    Overlap {
        /// Which kernel.
        kernel: String,
        /// One parameter.
        first: usize,
        /// The other.
        second: usize,
    },
    /// Memory of a kernel that does not begin where the device needs it to.
    #[error(
        "kernel `{kernel}`: memory parameter {position} is at {at}, which is no multiple of {alignment} bytes"
    )]
    Misaligned {
        /// Which kernel.
        kernel: String,
        /// Which parameter.
        position: usize,
        /// Where its memory begins.
        at: Location,
        /// What the device needs.
        alignment: usize,
    },
    /// A copy whose source and destination have bytes in common.
    #[error("a copy of {bytes} bytes from {from} to {to} overlaps itself")]
    CopyOverlap {
        /// Where the source begins.
        from: Location,
        /// Where the destination begins.
        to: Location,
        /// How much is copied.
        bytes: usize,
    },
    /// A copy whose source and destination differ in size.
    #[error("a copy to {expected} bytes at {to} from {found} bytes at {from}")]
    CopySize {
        /// Where the destination begins.
        to: Location,
        /// Its bytes.
        expected: usize,
        /// Where the source begins.
        from: Location,
        /// Its bytes.
        found: usize,
    },
    /// A copy between memory and a host array of another size.
    #[error("a copy between {expected} bytes at {at} and a host array of {found} bytes")]
    ArraySize {
        /// Where the memory begins.
        at: Location,
        /// Its bytes.
        expected: usize,
        /// The array's.
        found: usize,
    },
    /// A static index beyond what its kernel was compiled for.
    #[error("kernel `{kernel}`: a static index of {value} lies outside 0..{range}")]
    BindingRange {
        /// Which kernel.
        kernel: String,
        /// How many values the index has.
        range: i64,
        /// The value given.
        value: i64,
    },
    /// Memory that may only be read, such as a host array used in place.
    #[error("{pool} may only be read: it is a host array that the device uses in place")]
    ReadOnly {
        /// Which one.
        pool: PoolId,
    },
    /// A wrong number of arguments.
    #[error("kernel `{kernel}`: expected {expected} {what}, found {found}")]
    Arity {
        /// Which kernel.
        kernel: String,
        /// Bindings or memory parameters.
        what: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A task failed; everything behind it on the stream and everything that reads its results fails with it.
    #[error("{0}")]
    Failed(Failure),
    /// Something that would have to wait for a stream was tried inside a task, of that or of any other stream. Tasks never wait
    /// but where the runtime orders it: what they wait for could in turn wait for them.
    #[error("{stream}: {doing} would make a running task wait, perhaps for ever; do it outside of tasks")]
    SelfWait {
        /// The stream that would have been waited for.
        stream: String,
        /// What was tried.
        doing: &'static str,
    },
    /// A pool that is larger than what a kernel can reach at once.
    #[error("{pool} needs {bytes} bytes, more than the {limit} that the device binds to a kernel at once")]
    PoolTooLarge {
        /// Which one.
        pool: PoolId,
        /// What it needs.
        bytes: usize,
        /// What the device binds.
        limit: usize,
    },
    /// A kernel whose memory lies in more buffers of the device than a kernel may use.
    #[error("kernel `{kernel}`: its memory lies in {needed} buffers, the device binds {limit} to a kernel")]
    TooManyBuffers {
        /// Which kernel.
        kernel: String,
        /// How many it needs.
        needed: usize,
        /// How many the device binds.
        limit: usize,
    },
    /// A kernel of more workgroups than the device runs in one launch.
    #[error("kernel `{kernel}`: {groups} workgroups, the device runs {limit} in one launch")]
    TooManyGroups {
        /// Which kernel.
        kernel: String,
        /// How many it needs.
        groups: u64,
        /// How many the device runs.
        limit: u64,
    },
    /// A kernel whose workgroups take more than the device gives one.
    #[error("kernel `{kernel}`: {needed} {what}, the device gives a workgroup {limit}")]
    TooLarge {
        /// Which kernel.
        kernel: String,
        /// What it takes: registers, threads, bytes of shared memory.
        what: &'static str,
        /// How much of it.
        needed: usize,
        /// What the device gives.
        limit: usize,
    },
    /// A launch that contradicts itself, its code or the device: a defect of the codegen, or code for another device.
    #[error("kernel `{kernel}`: {what}: expected {expected}, found {found}")]
    BadLaunch {
        /// Which kernel.
        kernel: String,
        /// What of its launch.
        what: Box<str>,
        /// What the device or the code takes.
        expected: Box<str>,
        /// What there is.
        found: Box<str>,
    },
    /// The codegen made no text for the memory that a kernel is bound to.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// The platform's compiler refused a kernel: our bug, or the platform's.
    #[error("kernel `{kernel}`: the device refused its code, which is a bug: {message}")]
    CodeRefused {
        /// Which kernel.
        kernel: String,
        /// What the platform said, with the place in the text.
        message: String,
    },
    /// The device is gone, with all that was in its memory. Nothing works on it any more; make another device.
    #[error("device `{driver}` is lost: {message}")]
    Lost {
        /// Which driver.
        driver: String,
        /// What the platform said.
        message: String,
    },
    /// The platform refused a thread, a queue, or anything else.
    #[error("{what}: {message}")]
    Platform {
        /// What was tried.
        what: &'static str,
        /// What the platform said.
        message: String,
    },
}

/// What the runtime reports. Messages name the user's objects.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A routine reads a node before anything could have written it.
    #[error(
        "routine `{routine}`: the linked context ({stream}) lacks node `{node}`, which the routine reads; give it a value first (`init_from_host`), or link a routine that writes it"
    )]
    ContextLacksNode {
        /// Which routine.
        routine: String,
        /// The context's stream.
        stream: String,
        /// Which node.
        node: String,
    },
    /// The routine has nodes that the caller gave no handle for.
    #[error(
        "routine `{routine}`: no handle for node `{node}` (position {position}, {handles} handles given)"
    )]
    NoHandle {
        /// Which routine.
        routine: String,
        /// Which node, by the routine's name for it.
        node: String,
        /// Its position in the routine.
        position: usize,
        /// How many handles there were.
        handles: usize,
    },
    /// The routine reads a node from the merge buffer, which holds another, or nothing.
    #[error(
        "routine `{routine}` reads node `{expected}` from the merge buffer of {stream}, which holds {found}; transfer `{expected}` into it first (`device_to_device`)"
    )]
    MergeBuffer {
        /// Which routine.
        routine: String,
        /// Which stream.
        stream: String,
        /// The node it reads.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A merge was asked of a routine that does not read that node from the merge buffer of that stream.
    #[error("routine `{routine}` was to merge node `{expected}` on {stream}, but it reads {found}")]
    NotMerging {
        /// Which routine.
        routine: String,
        /// The node it was to read.
        expected: String,
        /// The stream of the destination.
        stream: String,
        /// What it reads, and on which stream.
        found: String,
    },
    /// Links on two streams write a node that they share because of the links before.
    #[error(
        "node `{node}` is shared by streams of {device} and {owner} writes it; {stream} cannot write it too. Make it shared (`Sharing::Shared`) or per-stream (`Sharing::PerStream`) to say which is meant"
    )]
    SecondWriter {
        /// Which node.
        node: String,
        /// The device.
        device: String,
        /// The stream that writes it.
        owner: String,
        /// The other one.
        stream: String,
    },
    /// A routine assigns to a node that only the host changes.
    #[error(
        "routine `{routine}` on {stream} writes node `{node}`, which is {mode}: only the host changes it"
    )]
    HostedWrite {
        /// Which node.
        node: String,
        /// Which routine.
        routine: String,
        /// The stream that it was linked for.
        stream: String,
        /// Its memory mode.
        mode: String,
    },
    /// The host has no array for the node.
    #[error("node `{node}` has no host array here; give it one (`Host::insert`)")]
    NotHosted {
        /// Which node.
        node: String,
    },
    /// The host changes a constant that a device has.
    #[error("node `{node}` is constant and devices have its values: the host cannot change them any more")]
    HostConstant {
        /// Which node.
        node: String,
    },
    /// The memory of the node is the host's array itself.
    #[error("node `{node}` on {device} is the host's array itself, which devices only read")]
    ReadOnly {
        /// Which node.
        node: String,
        /// The device.
        device: String,
    },
    /// A transfer of a node that its source does not have.
    #[error(
        "node `{node}` has no memory in the source context ({source_stream}), so that {stream} gets nothing"
    )]
    NoSource {
        /// Which node.
        node: String,
        /// The source's stream.
        source_stream: String,
        /// The destination's.
        stream: String,
    },
    /// The streams of a device have one copy of the node.
    #[error(
        "node `{node}` is shared by the streams of {device}: contexts on it have the same memory and need no copy"
    )]
    SharedAlready {
        /// Which node.
        node: String,
        /// The device.
        device: String,
    },
    /// A context whose memory was given back.
    #[error("{what}: this context of {stream} was finalised and has no nodes any more")]
    Finalized {
        /// Which node or routine was to be used.
        what: String,
        /// The context's stream.
        stream: String,
    },
    /// A host array was asked for where waiting for it could be for ever.
    #[error(
        "node `{node}`: its host array is in use, and this thread has a host array already: call this outside of `Host::update` and of transfers"
    )]
    HostArrayInUse {
        /// Which node.
        node: String,
    },
    /// Sizes differ.
    #[error("node `{node}`: {what} has sizes {found:?}, expected {expected:?}")]
    Shape {
        /// Which node.
        node: String,
        /// What was compared with the node.
        what: String,
        /// The node's sizes, with margins.
        expected: Vec<usize>,
        /// The other's.
        found: Vec<usize>,
    },
    /// Element types differ.
    #[error("node `{node}`: {what} has elements of {found}, expected {expected}")]
    ElementType {
        /// Which node.
        node: String,
        /// What was compared with the node.
        what: String,
        /// The node's.
        expected: DType,
        /// The other's.
        found: DType,
    },
    /// A view has no memory of its own.
    #[error("node `{node}` is {view} and has no memory of its own to {access}; use that node's")]
    View {
        /// Which node.
        node: String,
        /// What it is a view of.
        view: String,
        /// What was tried.
        access: &'static str,
    },
    /// A virtual node has no values anywhere.
    #[error(
        "node `{node}` is virtual: it is computed where it is used and has no memory to {access}; specify \
         `MemoryMode::Materialized` for it before the routine is compiled"
    )]
    Virtual {
        /// Which node.
        node: String,
        /// What was tried.
        access: &'static str,
    },
    /// A node the context knows nothing of.
    #[error("node `{node}` is not in this context ({stream}): {hint}")]
    NotInContext {
        /// Which node.
        node: String,
        /// The context's stream.
        stream: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A node that has memory already.
    #[error("node `{node}` is already in this context ({stream}); use `from_host` to change its values")]
    AlreadyInContext {
        /// Which node.
        node: String,
        /// The context's stream.
        stream: String,
    },
    /// A wrong number of bindings.
    #[error("routine `{routine}` on {stream}: expected {expected} bindings ({symbols}), found {found}")]
    BindingCount {
        /// Which routine.
        routine: String,
        /// Its stream.
        stream: String,
        /// How many symbols it has.
        expected: usize,
        /// Their names.
        symbols: String,
        /// How many values there were.
        found: usize,
    },
    /// A binding outside its symbol's range.
    #[error("routine `{routine}` on {stream}: binding @{symbol} = {value} is outside 0..{range}")]
    BindingRange {
        /// Which routine.
        routine: String,
        /// Its stream.
        stream: String,
        /// Which symbol.
        symbol: String,
        /// Values are `0..range`.
        range: i64,
        /// The value.
        value: i64,
    },
    /// A stream of another device.
    #[error("{found} belongs to another device than {expected}")]
    OtherDevice {
        /// The context's stream.
        expected: String,
        /// The other one.
        found: String,
    },
    /// The node's last writer failed, so it has no value.
    #[error("node `{node}` has no value: {failure}")]
    Poisoned {
        /// Which node.
        node: String,
        /// The first failure behind it.
        failure: Failure,
    },
    /// A node alone exceeds what one pool may hold.
    #[error("node `{node}` needs {bytes} bytes for {stream}, and a pool of its device holds at most {cap}")]
    NodeTooLarge {
        /// Which node.
        node: String,
        /// The stream that it was for, which names the device too.
        stream: String,
        /// What it needs.
        bytes: usize,
        /// What a pool may hold.
        cap: usize,
    },
    /// A schedule and an artifact that do not fit each other: a defect of whoever made the code.
    #[error("routine `{routine}`: its code contradicts itself: {problem}")]
    InvalidCode {
        /// Which routine.
        routine: String,
        /// What does not fit.
        problem: String,
    },
    /// The node's sizes are not settled, or an array could not be made.
    #[error(transparent)]
    Node(Box<tnode::Error>),
    /// The device refused or failed.
    #[error("{during}: {source}")]
    Driver {
        /// What was being done, with the user's objects.
        during: String,
        /// The device's answer.
        source: DriverError,
    },
}

impl From<tnode::Error> for Error {
    fn from(error: tnode::Error) -> Error {
        Error::Node(Box::new(error))
    }
}

impl Error {
    /// Wraps a driver's answer, naming what was being done.
    pub(crate) fn driver(during: impl FnOnce() -> String) -> impl FnOnce(DriverError) -> Error {
        move |source| Error::Driver { during: during(), source }
    }

    /// The first failure behind this error, if it stems from a task that failed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Poisoned { failure, .. } | Error::Driver { source: DriverError::Failed(failure), .. } => {
                Some(failure)
            }
            _ => None,
        }
    }
}
