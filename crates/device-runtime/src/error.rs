//! Errors: [`DriverError`] below the driver contract, [`RunError`] above it, and [`Failure`] for a task that
//! failed after it was submitted.

use std::{fmt, sync::Arc};

use codegen_core::{Artifact, CodegenError, Payload};
use tnode::DType;

use crate::driver::{Location, PoolId};

/// The failure of a task after it was submitted. Everything that depends on the task refers to it; cheap to
/// clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(Arc<FailureDetails>);

#[derive(Debug, PartialEq, Eq)]
struct FailureDetails {
    stream: Arc<str>,
    task: String,
    message: String,
}

impl Failure {
    /// The failure of a task on a stream, with a message.
    pub fn new(stream: impl Into<Arc<str>>, task: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure(Arc::new(FailureDetails {
            stream: stream.into(),
            task: task.into(),
            message: message.into(),
        }))
    }

    /// The name of the stream whose task failed first, which also names its device.
    pub fn stream(&self) -> &str {
        &self.0.stream
    }

    /// The task's name: a kernel's, or a kind of copy.
    pub fn task(&self) -> &str {
        &self.0.task
    }

    /// The message of a panic or of the device.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed on {}: {}", self.0.task, self.0.stream, self.0.message)
    }
}

/// An error of a driver.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Not enough memory for a pool.
    #[error("out of device memory: {requested} bytes requested, {used} in use")]
    OutOfMemory {
        /// The requested size, in bytes.
        requested: usize,
        /// The total size of existing pools, in bytes.
        used: usize,
    },
    /// Not enough memory for the log of a kernel.
    #[error(
        "kernel `{kernel}`: out of device memory for its log: {requested} bytes requested, {used} in use"
    )]
    NoRoomForLog {
        /// The kernel's name.
        kernel: String,
        /// The requested size, in bytes.
        requested: usize,
        /// The total size of existing pools and logs, in bytes.
        used: usize,
    },
    /// Memory that the device cannot access, or that it cannot make accessible to others.
    #[error("device `{driver}` does not share {what}")]
    NoPeerAccess {
        /// The driver's name.
        driver: String,
        /// A description of the memory.
        what: &'static str,
    },
    /// The streams of the device cannot run functions of the user.
    #[error("streams of device `{driver}` run no functions of the host")]
    NoHostTasks {
        /// The driver's name.
        driver: String,
    },
    /// The driver knows no operations of its own.
    #[error("device `{driver}` has no operations of its own")]
    NoDeviceTasks {
        /// The driver's name.
        driver: String,
    },
    /// The device cannot run this kind of code.
    #[error("device `{driver}` does not load {payload} artifacts")]
    UnsupportedPayload {
        /// The driver's name.
        driver: String,
        /// The kind of payload in the artifact.
        payload: String,
    },
    /// The artifact has no such kernel.
    #[error("the artifact has no kernel at position {index}; it has {kernels}")]
    NoSuchEntry {
        /// The requested position.
        index: usize,
        /// The number of kernels.
        kernels: usize,
    },
    /// A handle of another driver.
    #[error("this {what} belongs to another driver")]
    ForeignHandle {
        /// The kind of handle.
        what: &'static str,
    },
    /// A pool that a [`DirectDriver`](crate::DirectDriver) never made, or has freed.
    #[error("{pool} does not exist")]
    NoSuchPool {
        /// The pool's number.
        pool: PoolId,
    },
    /// A range that leaves its memory.
    #[error("{what}: bytes {offset}..+{bytes} lie outside its {size} bytes")]
    OutOfBounds {
        /// A description of the memory.
        what: String,
        /// Offset of the range, in bytes.
        offset: usize,
        /// Size of the range, in bytes.
        bytes: usize,
        /// Size of the memory, in bytes.
        size: usize,
    },
    /// Memory that a kernel writes, and that also belongs to another parameter.
    #[error("kernel `{kernel}`: parameters {first} and {second} overlap and one is written")]
    Overlap {
        /// The kernel's name.
        kernel: String,
        /// The position of one parameter.
        first: usize,
        /// The position of the other parameter.
        second: usize,
    },
    /// Memory of a kernel that is not aligned as the device requires.
    #[error(
        "kernel `{kernel}`: memory parameter {position} is at {at}, which is no multiple of {alignment} bytes"
    )]
    Misaligned {
        /// The kernel's name.
        kernel: String,
        /// The position of the parameter.
        position: usize,
        /// The location of the parameter's memory.
        at: Location,
        /// The alignment that the device requires, in bytes.
        alignment: usize,
    },
    /// A copy whose source and destination have bytes in common.
    #[error("a copy of {bytes} bytes from {from} to {to} overlaps itself")]
    CopyOverlap {
        /// The location of the source.
        from: Location,
        /// The location of the destination.
        to: Location,
        /// Size of the copy, in bytes.
        bytes: usize,
    },
    /// A function on the host that was given the same memory twice.
    #[error("`{function}` on the host: the memory at {first} and at {second} overlaps")]
    AccessOverlap {
        /// The name of the function.
        function: String,
        /// The location of one range.
        first: Location,
        /// The location of the other range.
        second: Location,
    },
    /// A copy whose source and destination differ in size.
    #[error("a copy to {expected} bytes at {to} from {found} bytes at {from}")]
    CopySize {
        /// The location of the destination.
        to: Location,
        /// Size of the destination, in bytes.
        expected: usize,
        /// The location of the source.
        from: Location,
        /// Size of the source, in bytes.
        found: usize,
    },
    /// A copy between memory and a host array of another size.
    #[error("a copy between {expected} bytes at {at} and a host array of {found} bytes")]
    ArraySize {
        /// The location of the memory.
        at: Location,
        /// Size of the memory, in bytes.
        expected: usize,
        /// Size of the array, in bytes.
        found: usize,
    },
    /// A value of a static index outside of the range for which the kernel was compiled.
    #[error("kernel `{kernel}`: a static index of {value} lies outside 0..{range}")]
    BindingRange {
        /// The kernel's name.
        kernel: String,
        /// The end of the range `0..range`.
        range: i64,
        /// The rejected value.
        value: i64,
    },
    /// Memory that may only be read, such as a host array that is used in place.
    #[error("{pool} may only be read: it is a host array that the device uses in place")]
    ReadOnly {
        /// The pool's number.
        pool: PoolId,
    },
    /// A wrong number of arguments.
    #[error("kernel `{kernel}`: expected {expected} {what}, found {found}")]
    Arity {
        /// The kernel's name.
        kernel: String,
        /// The kind of arguments.
        what: &'static str,
        /// The number that the kernel takes.
        expected: usize,
        /// The number that was passed.
        found: usize,
    },
    /// A task failed; all later tasks on its stream and everything that reads its results fail with it.
    #[error("{0}")]
    Failed(Failure),
    /// A call inside of a task would have to wait for a stream. No code in a task may wait for a stream,
    /// because that stream could in turn wait for the task.
    #[error("{stream}: {doing} would make a running task wait, perhaps for ever; do it outside of tasks")]
    SelfWait {
        /// The stream for which the call would wait.
        stream: String,
        /// The attempted operation.
        doing: &'static str,
    },
    /// A pool that is larger than the memory that one binding of a kernel can reach.
    #[error("{pool} needs {bytes} bytes, more than the {limit} that the device binds to a kernel at once")]
    PoolTooLarge {
        /// The pool's number.
        pool: PoolId,
        /// The required size, in bytes.
        bytes: usize,
        /// The maximum size of a binding, in bytes.
        limit: usize,
    },
    /// A kernel whose memory is in more buffers of the device than a kernel may use.
    #[error("kernel `{kernel}`: its memory lies in {needed} buffers, the device binds {limit} to a kernel")]
    TooManyBuffers {
        /// The kernel's name.
        kernel: String,
        /// The required number.
        needed: usize,
        /// The maximum number per kernel.
        limit: usize,
    },
    /// A kernel of more workgroups than the device runs in one launch.
    #[error("kernel `{kernel}`: {groups} workgroups, the device runs {limit} in one launch")]
    TooManyGroups {
        /// The kernel's name.
        kernel: String,
        /// The required number.
        groups: u64,
        /// The maximum number per launch.
        limit: u64,
    },
    /// A kernel whose workgroups need more of a resource than the device has per workgroup.
    #[error("kernel `{kernel}`: {needed} {what}, the device gives a workgroup {limit}")]
    TooLarge {
        /// The kernel's name.
        kernel: String,
        /// The resource: registers, threads, or bytes of shared memory.
        what: &'static str,
        /// The required amount.
        needed: usize,
        /// The device's maximum per workgroup.
        limit: usize,
    },
    /// A launch that contradicts its own code or the device: a defect of the codegen, or code for another
    /// device.
    #[error("kernel `{kernel}`: {what}: expected {expected}, found {found}")]
    BadLaunch {
        /// The kernel's name.
        kernel: String,
        /// The property of the launch.
        what: Box<str>,
        /// The value that the device or the code requires.
        expected: Box<str>,
        /// The value of the launch.
        found: Box<str>,
    },
    /// The codegen could not make the text of a kernel for the memory to which it is bound.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// The platform's compiler rejected a kernel: a bug of ours, or of the platform.
    #[error("kernel `{kernel}`: the device rejected its code, which is a bug: {message}")]
    CodeRejected {
        /// The kernel's name.
        kernel: String,
        /// The platform's message, with the position in the text.
        message: String,
    },
    /// The device is lost, with all contents of its memory. Nothing works on it any more; open another
    /// device.
    #[error("device `{driver}` is lost: {message}")]
    Lost {
        /// The driver's name.
        driver: String,
        /// The platform's message.
        message: String,
    },
    /// The platform did not provide a thread, a queue or another resource.
    #[error("{what}: {message}")]
    Platform {
        /// The attempted operation.
        what: &'static str,
        /// The platform's message.
        message: String,
    },
}

impl DriverError {
    /// The error of a driver that does not load artifacts of this kind.
    pub fn unsupported_payload(driver: &str, artifact: &Artifact) -> DriverError {
        let payload = match artifact.payload() {
            Payload::Host(_) => "host",
            Payload::Shader(_) => "shader",
            Payload::Ptx(_) => "PTX",
            _ => "other",
        };
        DriverError::UnsupportedPayload { driver: driver.to_owned(), payload: payload.to_owned() }
    }
}

/// An error of the runtime. Messages name the user's objects.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no memory for the stack on which a routine is linked.
    #[error(transparent)]
    Stack(#[from] lowered_ir::stack::NoStack),
    /// A routine reads a node before anything could have written it.
    #[error(
        "routine `{routine}`: the linked context ({stream}) lacks node `{node}`, which the routine reads; give it a value first (`init_from_host`), or link a routine that writes it"
    )]
    ContextLacksNode {
        /// The routine's name.
        routine: String,
        /// The name of the context's stream.
        stream: String,
        /// The node's name.
        node: String,
    },
    /// The routine has nodes for which the caller passed no handle.
    #[error(
        "routine `{routine}`: no handle for node `{node}` (position {position}, {handles} handles given)"
    )]
    NoHandle {
        /// The routine's name.
        routine: String,
        /// The node's name in the routine.
        node: String,
        /// The node's position in the routine.
        position: usize,
        /// How many handles there were.
        handles: usize,
    },
    /// The routine reads a node from the merge buffer, which holds another node or nothing.
    #[error(
        "routine `{routine}` reads node `{expected}` from the merge buffer of {stream}, which holds {found}; transfer `{expected}` into it first (`device_to_device`)"
    )]
    MergeBuffer {
        /// The routine's name.
        routine: String,
        /// The stream's name.
        stream: String,
        /// The name of the node that the routine reads.
        expected: String,
        /// A description of the merge buffer's content.
        found: String,
    },
    /// A merge was requested for a routine that does not read that node from the merge buffer of that stream.
    #[error("routine `{routine}` was to merge node `{expected}` on {stream}, but it reads {found}")]
    NotMerging {
        /// The routine's name.
        routine: String,
        /// The name of the node to be merged.
        expected: String,
        /// The name of the destination stream.
        stream: String,
        /// A description of the node that it reads, with the stream.
        found: String,
    },
    /// Links on two streams write a node that earlier links made them share.
    #[error(
        "node `{node}` is shared by streams of {device} and {owner} writes it; {stream} cannot write it too. Make it shared (`Sharing::Shared`) or per-stream (`Sharing::PerStream`) to say which is meant"
    )]
    SecondWriter {
        /// The node's name.
        node: String,
        /// The device's name.
        device: String,
        /// The name of the stream that writes the node.
        owner: String,
        /// The name of the other stream.
        stream: String,
    },
    /// A routine assigns to a node that only the host changes.
    #[error(
        "routine `{routine}` on {stream} writes node `{node}`, which is {mode}: only the host changes it"
    )]
    HostedWrite {
        /// The node's name.
        node: String,
        /// The routine's name.
        routine: String,
        /// The name of the stream for which it is linked.
        stream: String,
        /// The node's memory mode.
        mode: String,
    },
    /// The host has no array for the node.
    #[error("node `{node}` has no host array here; give it one (`Host::insert`)")]
    NotHosted {
        /// The node's name.
        node: String,
    },
    /// The host changes a constant whose values a device has.
    #[error("node `{node}` is constant and devices have its values: the host cannot change them any more")]
    HostConstant {
        /// The node's name.
        node: String,
    },
    /// The memory of the node is the host's array itself.
    #[error("node `{node}` on {device} is the host's array itself, which devices only read")]
    ReadOnly {
        /// The node's name.
        node: String,
        /// The device's name.
        device: String,
    },
    /// A transfer of a node that the source context does not have.
    #[error(
        "node `{node}` has no memory in the source context ({source_stream}), so that {stream} gets nothing"
    )]
    NoSource {
        /// The node's name.
        node: String,
        /// The name of the source context's stream.
        source_stream: String,
        /// The name of the destination stream.
        stream: String,
    },
    /// The streams of a device share one copy of the node.
    #[error(
        "node `{node}` is shared by the streams of {device}: contexts on it have the same memory and need no copy"
    )]
    SharedAlready {
        /// The node's name.
        node: String,
        /// The device's name.
        device: String,
    },
    /// A context whose memory was released.
    #[error("{what}: this context of {stream} was finalised and has no nodes any more")]
    Finalized {
        /// The node or routine of the failed call.
        what: String,
        /// The name of the context's stream.
        stream: String,
    },
    /// A host array was requested where waiting for it could be a deadlock.
    #[error(
        "node `{node}`: its host array is in use, and this thread has a host array already: call this outside of `Host::update` and of transfers"
    )]
    HostArrayInUse {
        /// The node's name.
        node: String,
    },
    /// Shapes differ.
    #[error("node `{node}`: {what} has sizes {found:?}, expected {expected:?}")]
    Shape {
        /// The node's name.
        node: String,
        /// A description of the compared array or node.
        what: String,
        /// The node's dimensions, with margins.
        expected: Vec<usize>,
        /// The compared value.
        found: Vec<usize>,
    },
    /// Element types differ.
    #[error("node `{node}`: {what} has elements of {found}, expected {expected}")]
    ElementType {
        /// The node's name.
        node: String,
        /// A description of the compared array or node.
        what: String,
        /// The node's element type.
        expected: DType,
        /// The compared value.
        found: DType,
    },
    /// A view has no memory of its own.
    #[error("node `{node}` is {view} and has no memory of its own to {access}; use that node's")]
    View {
        /// The node's name.
        node: String,
        /// A description of the viewed node.
        view: String,
        /// The attempted operation.
        access: &'static str,
    },
    /// A virtual node has no values anywhere.
    #[error(
        "node `{node}` is virtual: it is computed where it is used and has no memory to {access}; specify \
         `MemoryMode::Materialized` for it before the routine is compiled"
    )]
    Virtual {
        /// The node's name.
        node: String,
        /// The attempted operation.
        access: &'static str,
    },
    /// A node that is not in the context.
    #[error("node `{node}` is not in this context ({stream}): {hint}")]
    NotInContext {
        /// The node's name.
        node: String,
        /// The name of the context's stream.
        stream: String,
        /// A hint for the user.
        hint: &'static str,
    },
    /// A node that already has memory.
    #[error("node `{node}` is already in this context ({stream}); use `from_host` to change its values")]
    AlreadyInContext {
        /// The node's name.
        node: String,
        /// The name of the context's stream.
        stream: String,
    },
    /// A wrong number of bindings.
    #[error("routine `{routine}` on {stream}: expected {expected} bindings ({symbols}), found {found}")]
    BindingCount {
        /// The routine's name.
        routine: String,
        /// The name of the routine's stream.
        stream: String,
        /// The number of the routine's symbols.
        expected: usize,
        /// The names of the symbols.
        symbols: String,
        /// The number of values passed.
        found: usize,
    },
    /// A binding outside its symbol's range.
    #[error("routine `{routine}` on {stream}: binding @{symbol} = {value} is outside 0..{range}")]
    BindingRange {
        /// The routine's name.
        routine: String,
        /// The name of the routine's stream.
        stream: String,
        /// The symbol's name.
        symbol: String,
        /// The end of the range `0..range`.
        range: i64,
        /// The rejected value.
        value: i64,
    },
    /// A stream of another device.
    #[error("{found} belongs to another device than {expected}")]
    OtherDevice {
        /// The name of the context's stream.
        expected: String,
        /// The name of the other stream.
        found: String,
    },
    /// The node's last writer failed, so it has no value.
    #[error("node `{node}` has no value: {failure}")]
    Poisoned {
        /// The node's name.
        node: String,
        /// The failure that caused it.
        failure: Failure,
    },
    /// A run reads a node that nothing has written.
    #[error(
        "{task} reads node `{node}`, which nothing has written; run the routine that computes it first, or give it \
         values with `init_from_host`"
    )]
    Unwritten {
        /// The node's name.
        node: String,
        /// The name of the run.
        task: String,
    },
    /// A single node exceeds the maximum size of a pool.
    #[error("node `{node}` needs {bytes} bytes for {stream}, and a pool of its device holds at most {cap}")]
    NodeTooLarge {
        /// The node's name.
        node: String,
        /// The name of the stream, which also names the device.
        stream: String,
        /// The required size, in bytes.
        bytes: usize,
        /// Maximum size of a pool, in bytes.
        cap: usize,
    },
    /// A schedule and an artifact that contradict each other: a defect of the producer of the code.
    #[error("routine `{routine}`: its code contradicts itself: {problem}")]
    InvalidCode {
        /// The routine's name.
        routine: String,
        /// A description of the contradiction.
        problem: String,
    },
    /// The node's shape is not known, or an array could not be made.
    #[error(transparent)]
    Node(Box<tnode::Error>),
    /// A function of the user, called on values of a device whose memory the host cannot access, failed.
    #[error("`{name}` on the host: {message}")]
    HostFunction {
        /// The name of the function.
        name: String,
        /// The message of its failure.
        message: String,
    },
    /// The device rejected a call or failed.
    #[error("{during}: {source}")]
    Driver {
        /// The operation, with the user's objects.
        during: String,
        /// The driver's error.
        source: DriverError,
    },
}

impl From<tnode::Error> for RunError {
    fn from(error: tnode::Error) -> RunError {
        RunError::Node(Box::new(error))
    }
}

impl RunError {
    /// Wraps a driver's error; `during` names the operation and the user's objects.
    pub(crate) fn driver(during: impl FnOnce() -> String) -> impl FnOnce(DriverError) -> RunError {
        move |source| RunError::Driver { during: during(), source }
    }

    /// The first failure that caused this error, if a failed task did.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            RunError::Poisoned { failure, .. }
            | RunError::Driver { source: DriverError::Failed(failure), .. } => Some(failure),
            _ => None,
        }
    }
}
