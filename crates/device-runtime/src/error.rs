//! Errors: [`DriverError`] below the driver contract, [`RunError`] above it, and [`Failure`] for a task that
//! failed after it was submitted.

use std::{fmt, ops::Range, sync::Arc};

use codegen_core::{Artifact, CodegenError, Payload};
use tnode::DType;

use crate::driver::{Location, PoolId};

/// The result of a call of a driver.
pub(crate) type Result<T, E = DriverError> = std::result::Result<T, E>;

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
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DriverError {
    /// Not enough memory for a pool.
    #[error("out of device memory: {requested} bytes requested, {used} in use")]
    OutOfMemory { requested: usize, used: usize },
    /// Not enough memory for the log of a kernel.
    #[error(
        "kernel `{kernel}`: out of device memory for its log: {requested} bytes requested, {used} in use"
    )]
    NoRoomForLog { kernel: String, requested: usize, used: usize },
    /// Memory that the device cannot access, or that it cannot make accessible to others.
    #[error("device `{driver}` does not share {what}")]
    NoPeerAccess { driver: String, what: &'static str },
    /// The streams of the device cannot run functions of the user.
    #[error("streams of device `{driver}` run no functions of the host")]
    NoHostTasks { driver: String },
    /// The driver knows no operations of its own.
    #[error("device `{driver}` has no operations of its own")]
    NoDeviceTasks { driver: String },
    /// The device cannot run this kind of code.
    #[error("device `{driver}` does not load {payload} artifacts")]
    UnsupportedPayload { driver: String, payload: String },
    /// The artifact has no such kernel.
    #[error("the artifact has no kernel at position {index}; it has {kernels}")]
    NoSuchEntry { index: usize, kernels: usize },
    /// A handle of another driver.
    #[error("this {what} belongs to another driver")]
    ForeignHandle { what: &'static str },
    /// A pool that a [`DirectDriver`](crate::DirectDriver) never made, or has freed.
    #[error("{pool} does not exist")]
    NoSuchPool { pool: PoolId },
    /// A range that leaves its memory.
    #[error("{what}: bytes {offset}..+{bytes} lie outside its {size} bytes")]
    OutOfBounds { what: String, offset: usize, bytes: usize, size: usize },
    /// Memory that a kernel writes, and that also belongs to another parameter.
    #[error("kernel `{kernel}`: parameters {first} and {second} overlap and one is written")]
    Overlap { kernel: String, first: usize, second: usize },
    /// Memory of a kernel that is not aligned as the device requires.
    #[error(
        "kernel `{kernel}`: memory parameter {position} is at {at}, which is no multiple of {alignment} bytes"
    )]
    Misaligned { kernel: String, position: usize, at: Location, alignment: usize },
    /// A copy whose source and destination have bytes in common.
    #[error("a copy of {bytes} bytes from {from} to {to} overlaps itself")]
    CopyOverlap { from: Location, to: Location, bytes: usize },
    /// A function on the host that was given the same memory twice.
    #[error("`{function}` on the host: the memory at {first} and at {second} overlaps")]
    AccessOverlap { function: String, first: Location, second: Location },
    /// A copy whose source and destination differ in size.
    #[error("a copy to {expected} bytes at {to} from {found} bytes at {from}")]
    CopySize { to: Location, expected: usize, from: Location, found: usize },
    /// A copy between memory and a host array of another size.
    #[error("a copy between {expected} bytes at {at} and a host array of {found} bytes")]
    ArraySize { at: Location, expected: usize, found: usize },
    /// A value of a static index outside of the range for which the kernel was compiled.
    #[error("kernel `{kernel}`: a static index of {value} lies outside 0..{range}")]
    BindingRange { kernel: String, range: i64, value: i64 },
    /// Memory that may only be read, such as a host array that is used in place.
    #[error("{pool} may only be read: it is a host array that the device uses in place")]
    ReadOnly { pool: PoolId },
    /// A wrong number of arguments.
    #[error("kernel `{kernel}`: expected {expected} {what}, found {found}")]
    Arity { kernel: String, what: &'static str, expected: usize, found: usize },
    /// A task failed; all later tasks on its stream and everything that reads its results fail with it.
    #[error("{0}")]
    Failed(Failure),
    /// A call inside of a task would have to wait for a stream. No code in a task may wait for a stream,
    /// because that stream could in turn wait for the task.
    #[error("{stream}: {doing} would make a running task wait, perhaps for ever; do it outside of tasks")]
    SelfWait { stream: String, doing: &'static str },
    /// A pool that is larger than the memory that one binding of a kernel can reach.
    #[error("{pool} needs {bytes} bytes, more than the {limit} that the device binds to a kernel at once")]
    PoolTooLarge { pool: PoolId, bytes: usize, limit: usize },
    /// A kernel whose memory is in more buffers of the device than a kernel may use.
    #[error("kernel `{kernel}`: its memory lies in {needed} buffers, the device binds {limit} to a kernel")]
    TooManyBuffers { kernel: String, needed: usize, limit: usize },
    /// A kernel of more workgroups than the device runs in one launch.
    #[error("kernel `{kernel}`: {groups} workgroups, the device runs {limit} in one launch")]
    TooManyGroups { kernel: String, groups: u64, limit: u64 },
    /// A kernel whose workgroups need more of a resource, such as registers, threads or bytes of shared
    /// memory, than the device has per workgroup.
    #[error("kernel `{kernel}`: {needed} {what}, the device gives a workgroup {limit}")]
    TooLarge { kernel: String, what: &'static str, needed: usize, limit: usize },
    /// A launch that contradicts its own code or the device: a defect of the codegen, or code for another
    /// device.
    #[error("kernel `{kernel}`: {what}: expected {expected}, found {found}")]
    BadLaunch { kernel: String, what: Box<str>, expected: Box<str>, found: Box<str> },
    /// The codegen could not make the text of a kernel for the memory to which it is bound.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// The platform's compiler rejected a kernel: a bug of ours, or of the platform.
    #[error("kernel `{kernel}`: the device rejected its code, which is a bug: {message}")]
    CodeRejected { kernel: String, message: String },
    /// The device is lost, with all contents of its memory. Nothing works on it any more; open another
    /// device.
    #[error("device `{driver}` is lost: {message}")]
    Lost { driver: String, message: String },
    /// The platform did not provide a thread, a queue or another resource.
    #[error("{what}: {message}")]
    Platform { what: &'static str, message: String },
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
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RunError {
    /// There is no memory for the stack on which a routine is linked.
    #[error(transparent)]
    Stack(#[from] lowered_ir::stack::NoStack),
    /// A routine reads a node before anything could have written it.
    #[error(
        "routine `{routine}`: the linked context ({stream}) lacks node `{node}`, which the routine reads; give it a value first (`init_from_host`), or link a routine that writes it"
    )]
    ContextLacksNode { routine: String, stream: String, node: String },
    /// The routine has nodes for which the caller passed no handle.
    #[error(
        "routine `{routine}`: no handle for node `{node}` (position {position}, {handles} handles given)"
    )]
    NoHandle { routine: String, node: String, position: usize, handles: usize },
    /// The routine reads a node from the merge buffer, which holds another node or nothing.
    #[error(
        "routine `{routine}` reads node `{expected}` from the merge buffer of {stream}, which holds {found}; transfer `{expected}` into it first (`device_to_device`)"
    )]
    MergeBuffer { routine: String, stream: String, expected: String, found: String },
    /// A merge was requested for a routine that does not read that node from the merge buffer of that stream.
    #[error("routine `{routine}` was to merge node `{expected}` on {stream}, but it reads {found}")]
    NotMerging { routine: String, expected: String, stream: String, found: String },
    /// Links on two streams write a node that earlier links made them share.
    #[error(
        "node `{node}` is shared by streams of {device} and {owner} writes it; {stream} cannot write it too. Make it shared (`Sharing::Shared`) or per-stream (`Sharing::PerStream`) to say which is meant"
    )]
    SecondWriter { node: String, device: String, owner: String, stream: String },
    /// A routine assigns to a node that only the host changes.
    #[error(
        "routine `{routine}` on {stream} writes node `{node}`, which is {mode}: only the host changes it"
    )]
    HostedWrite { node: String, routine: String, stream: String, mode: String },
    /// The host has no array for the node.
    #[error("node `{node}` has no host array here; give it one (`Host::insert`)")]
    NotHosted { node: String },
    /// The host changes a constant whose values a device has.
    #[error("node `{node}` is constant and devices have its values: the host cannot change them any more")]
    HostConstant { node: String },
    /// The memory of the node is the host's array itself.
    #[error("node `{node}` on {device} is the host's array itself, which devices only read")]
    ReadOnly { node: String, device: String },
    /// A transfer of a node that the source context does not have.
    #[error(
        "node `{node}` has no memory in the source context ({source_stream}), so that {stream} gets nothing"
    )]
    NoSource { node: String, source_stream: String, stream: String },
    /// The streams of a device share one copy of the node.
    #[error(
        "node `{node}` is shared by the streams of {device}: contexts on it have the same memory and need no copy"
    )]
    SharedAlready { node: String, device: String },
    /// A context whose memory was released.
    #[error("{what}: this context of {stream} was finalized and has no nodes any more")]
    Finalized { what: String, stream: String },
    /// A host array was requested where waiting for it could be a deadlock.
    #[error(
        "node `{node}`: its host array is in use, and this thread has a host array already: call this outside of `Host::update` and of transfers"
    )]
    HostArrayInUse { node: String },
    /// Shapes differ.
    #[error("node `{node}`: {what} has sizes {found:?}, expected {expected:?}")]
    Shape { node: String, what: String, expected: Vec<usize>, found: Vec<usize> },
    /// Element types differ.
    #[error("node `{node}`: {what} has elements of {found}, expected {expected}")]
    ElementType { node: String, what: String, expected: DType, found: DType },
    /// A view has no memory of its own.
    #[error("node `{node}` is {view} and has no memory of its own to {access}; use that node's")]
    View { node: String, view: String, access: &'static str },
    /// A virtual node has no values anywhere.
    #[error(
        "node `{node}` is virtual: it is computed where it is used and has no memory to {access}; specify \
         `MemoryMode::Materialized` for it before the routine is compiled"
    )]
    Virtual { node: String, access: &'static str },
    /// A node that is not in the context.
    #[error("node `{node}` is not in this context ({stream}): {hint}")]
    NotInContext { node: String, stream: String, hint: &'static str },
    /// A node that already has memory.
    #[error("node `{node}` is already in this context ({stream}); use `from_host` to change its values")]
    AlreadyInContext { node: String, stream: String },
    /// A wrong number of bindings.
    #[error("routine `{routine}` on {stream}: expected {expected} bindings ({symbols}), found {found}")]
    BindingCount { routine: String, stream: String, expected: usize, symbols: String, found: usize },
    /// A binding outside its symbol's range.
    #[error("routine `{routine}` on {stream}: binding @{symbol} = {value} is outside {range:?}")]
    BindingRange { routine: String, stream: String, symbol: String, range: Range<i64>, value: i64 },
    /// A stream of another device.
    #[error("{found} belongs to another device than {expected}")]
    OtherDevice { expected: String, found: String },
    /// The node's last writer failed, so it has no value.
    #[error("node `{node}` has no value: {failure}")]
    Poisoned { node: String, failure: Failure },
    /// A run reads a node that nothing has written.
    #[error(
        "{task} reads node `{node}`, which nothing has written; run the routine that computes it first, or give it \
         values with `init_from_host`"
    )]
    Unwritten { node: String, task: String },
    /// A single node exceeds the maximum size of a pool.
    #[error(
        "node `{node}` needs {bytes} bytes for {stream}, and a pool of its device holds at most {cap}; \
         `Device::with_pool_cap`, in arrayjit the setting pool_bytes, raises this limit, except on GPUs behind wgpu"
    )]
    NodeTooLarge { node: String, stream: String, bytes: usize, cap: usize },
    /// A schedule and an artifact that contradict each other: a defect of the producer of the code.
    #[error("routine `{routine}`: its code contradicts itself: {problem}")]
    InvalidCode { routine: String, problem: String },
    /// The node's shape is not known, or an array could not be made.
    #[error(transparent)]
    Node(Box<tnode::TensorNodeError>),
    /// A function of the user, called on values of a device whose memory the host cannot access, failed.
    #[error("`{name}` on the host: {message}")]
    HostFunction { name: String, message: String },
    /// The device rejected a call or failed.
    #[error("{during}: {source}")]
    Driver { during: String, source: DriverError },
}

impl From<tnode::TensorNodeError> for RunError {
    fn from(error: tnode::TensorNodeError) -> RunError {
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
