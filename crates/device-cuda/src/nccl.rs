//! Exchanges of values between devices by NCCL, as tasks of streams.
//!
//! Addresses of device memory never leave a driver, so a program cannot call NCCL itself. It asks for an
//! [operation](NcclOperation) on nodes instead; [`NcclCommunicator::schedule`] makes a task of it by
//! [`Context::access_on_device`], and the driver calls the library with the addresses and its stream. The
//! runtime orders the task like a run of a routine.
//!
//! NCCL chooses the order of additions, so sums of floats may differ in their last bits from those of other
//! numbers of ranks, other machines and other versions of the library.
//!
//! The library, `libnccl.so` or `libnccl.so.2`, version 2.18 or later, is loaded when it is used first.

use std::sync::Arc;

use device_runtime::{Context, Event, RunError, Stream};
use tnode::{DType, TensorNode};

use crate::api::{CallError, Communicator, Exchange, LoadError, new_id};

/// The identifier by which the ranks of a communicator find each other. One rank makes it and gives its bytes
/// to all others, over whatever connects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclUniqueId([u8; 128]);

impl NcclUniqueId {
    /// Makes an identifier.
    ///
    /// # Errors
    ///
    /// [`NcclError::NoLibrary`], [`NcclError::NoSymbol`], and errors of the library.
    pub fn new() -> Result<NcclUniqueId, NcclError> {
        Ok(NcclUniqueId(new_id()??))
    }

    /// An identifier that another rank has made.
    pub fn from_bytes(bytes: [u8; 128]) -> NcclUniqueId {
        NcclUniqueId(bytes)
    }

    /// The bytes to give to other ranks.
    pub fn to_bytes(self) -> [u8; 128] {
        self.0
    }
}

/// How NCCL reduces values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NcclReduction {
    /// Sums.
    Sum,
    /// Greatest values.
    Max,
    /// Least values.
    Min,
}

/// An operation on nodes of this rank, together with the same nodes of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NcclOperation {
    /// Reduces each node in place, for all ranks.
    AllReduce(NcclReduction),
    /// Reduces each node in place, for the rank given at the position of the node; on other ranks its values
    /// are not useful afterwards.
    Reduce(NcclReduction, Vec<usize>),
    /// Gives each node the values that it has on the rank given at its position.
    Broadcast(Vec<usize>),
    /// Reduces the first of two nodes, and stores the part of this rank in the second.
    ReduceScatter(NcclReduction),
    /// Stores the first of two nodes of every rank, in their order, in the second.
    AllGather,
}

/// Why an operation was not scheduled.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum NcclError {
    /// No library with any of these names exists.
    #[error("NCCL is not installed: no library of the names {}", .0.join(", "))]
    NoLibrary(Vec<String>),
    /// The library lacks a function.
    #[error("NCCL lacks `{0}`; install version 2.18 or later")]
    NoSymbol(&'static str),
    /// A call that the library rejected.
    #[error("{0}")]
    Rejected(String),
    /// The library does not know elements of this type.
    #[error("node `{node}`: NCCL has no elements of type {dtype}")]
    Type { node: String, dtype: DType },
    /// Nodes that do not fit an operation.
    #[error("{operation}: {found}, expected {expected}")]
    Nodes { operation: &'static str, found: String, expected: String },
    /// An error of the runtime, such as a node that a context lacks.
    #[error(transparent)]
    Run(Arc<RunError>),
}

impl From<RunError> for NcclError {
    fn from(error: RunError) -> NcclError {
        NcclError::Run(Arc::new(error))
    }
}

impl From<LoadError> for NcclError {
    fn from(error: LoadError) -> NcclError {
        match error {
            LoadError::NoLibrary(names) => NcclError::NoLibrary(names),
            LoadError::NoSymbol(name) => NcclError::NoSymbol(name),
        }
    }
}

impl From<CallError> for NcclError {
    fn from(error: CallError) -> NcclError {
        NcclError::Rejected(error.to_string())
    }
}

/// One rank of several devices that exchange values. Cloning is cheap, and a clone is the same rank.
///
/// All ranks schedule the same operations in the same order, each on one stream. The first operation connects
/// the ranks, and its caller waits for all of them.
#[derive(Clone, Debug)]
pub struct NcclCommunicator(Arc<Communicator>);

impl NcclCommunicator {
    /// Rank `rank` of `size` ranks that were given the same identifier.
    pub fn new(id: NcclUniqueId, rank: usize, size: usize) -> NcclCommunicator {
        NcclCommunicator(Arc::new(Communicator::new(id.0, rank, size)))
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.0.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Schedules an operation on a stream of a CUDA device, whose memory the context has. Margins of nodes
    /// take part. `name` is for messages.
    ///
    /// # Errors
    ///
    /// Nodes that do not fit the operation, or whose type NCCL lacks; the errors of
    /// [`Context::access_on_device`]. NCCL's own errors fail the stream.
    pub fn schedule(
        &self,
        context: &Context,
        stream: &Stream,
        nodes: &[TensorNode],
        operation: &NcclOperation,
        name: &str,
    ) -> Result<Event, NcclError> {
        let exchanges = exchanges(operation, nodes, self.size())?;
        let call = Arc::new(NcclCall { communicator: Arc::clone(&self.0), exchanges });
        Ok(context.access_on_device(stream, nodes, name, call)?)
    }
}

/// An operation as the driver gets it.
#[derive(Debug)]
pub(crate) struct NcclCall {
    communicator: Arc<Communicator>,
    exchanges: Vec<Exchange>,
}

impl NcclCall {
    pub(crate) fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    pub(crate) fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }
}

/// The calls of an operation, whose nodes are checked.
fn exchanges(
    operation: &NcclOperation,
    nodes: &[TensorNode],
    size: usize,
) -> Result<Vec<Exchange>, NcclError> {
    let each = |one: &dyn Fn(usize, Elements) -> Exchange| -> Result<Vec<Exchange>, NcclError> {
        nodes.iter().enumerate().map(|(at, node)| Ok(one(at, Elements::of(node)?))).collect()
    };
    match operation {
        NcclOperation::AllReduce(by) => {
            each(&|at, Elements { count, dtype }| Exchange::AllReduce { at, count, dtype, by: number(*by) })
        }
        NcclOperation::Reduce(by, roots) => {
            check_roots("a reduction", roots, nodes.len(), size)?;
            each(&|at, Elements { count, dtype }| {
                let (by, root) = (number(*by), roots[at]);
                Exchange::Reduce { at, count, dtype, by, root }
            })
        }
        NcclOperation::Broadcast(roots) => {
            check_roots("a broadcast", roots, nodes.len(), size)?;
            let one = |(at, node): (usize, &TensorNode)| {
                let (count, root) = (bytes(node)?, roots[at]);
                Ok(Exchange::Broadcast { at, count, dtype: BYTES, root })
            };
            nodes.iter().enumerate().map(one).collect()
        }
        NcclOperation::ReduceScatter(by) => {
            let (whole, part) = two("reduce_scatter", nodes)?;
            let Elements { count, dtype } = Elements::of(part)?;
            check_parts("reduce_scatter", whole, part, size)?;
            Ok(vec![Exchange::ReduceScatter { count, dtype, by: number(*by) }])
        }
        NcclOperation::AllGather => {
            let (part, whole) = two("all_gather", nodes)?;
            check_parts("all_gather", whole, part, size)?;
            Ok(vec![Exchange::AllGather { count: bytes(part)?, dtype: BYTES }])
        }
    }
}

/// The number of elements of a node, and the number that NCCL has for their type.
#[derive(Clone, Copy)]
struct Elements {
    count: usize,
    dtype: u32,
}

/// NCCL's number for bytes.
const BYTES: u32 = 1;

impl Elements {
    fn of(node: &TensorNode) -> Result<Elements, NcclError> {
        let dtype = node.dtype();
        let number = match dtype {
            DType::I8 => 0,
            DType::U8 => BYTES,
            DType::I32 => 2,
            DType::U32 => 3,
            DType::I64 => 4,
            DType::U64 => 5,
            DType::F16 => 6,
            DType::F32 => 7,
            DType::F64 => 8,
            DType::Bf16 => 9,
            _ => return Err(NcclError::Type { node: node.name(), dtype }),
        };
        Ok(Elements { count: bytes(node)? / dtype.size_bytes(), dtype: number })
    }
}

/// The size of a node, margins included.
fn bytes(node: &TensorNode) -> Result<usize, NcclError> {
    let dims = node.dims().map_err(RunError::from)?;
    Ok(dims.iter().product::<usize>() * node.dtype().size_bytes())
}

fn number(by: NcclReduction) -> u32 {
    match by {
        NcclReduction::Sum => 0,
        NcclReduction::Max => 2,
        NcclReduction::Min => 3,
    }
}

fn two<'n>(
    operation: &'static str,
    nodes: &'n [TensorNode],
) -> Result<(&'n TensorNode, &'n TensorNode), NcclError> {
    match nodes {
        [first, second] => Ok((first, second)),
        _ => {
            let (found, expected) = (format!("{} nodes", nodes.len()), "two nodes".to_owned());
            Err(NcclError::Nodes { operation, found, expected })
        }
    }
}

fn check_parts(
    operation: &'static str,
    whole: &TensorNode,
    part: &TensorNode,
    size: usize,
) -> Result<(), NcclError> {
    let (found, expected) = (bytes(whole)?, bytes(part)?.checked_mul(size));
    if Some(found) == expected && whole.dtype() == part.dtype() {
        return Ok(());
    }
    let found = format!("node `{}` of {} and {found} bytes", whole.name(), whole.dtype());
    let expected = format!("{size} times the elements of node `{}` of {}", part.name(), part.dtype());
    Err(NcclError::Nodes { operation, found, expected })
}

fn check_roots(operation: &'static str, roots: &[usize], nodes: usize, size: usize) -> Result<(), NcclError> {
    if roots.len() == nodes && roots.iter().all(|root| *root < size) {
        return Ok(());
    }
    let found = format!("the ranks {roots:?} for {nodes} nodes");
    let expected = format!("a rank below {size} for each node");
    Err(NcclError::Nodes { operation, found, expected })
}
