//! Groups of ranks on NVIDIA's devices, over NCCL.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arrayjit::{Context, DType, Event, HostArray, RunError, Stream, TensorNode};
use device_cuda::{NcclCommunicator, NcclError, NcclOperation, NcclReduction, NcclUniqueId};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    announcement::Announcement,
    checks::{check_digests, check_part_count, check_parts, check_root, common_type, names, short_names},
    error::{CollectiveError, Result},
    group::{Group, Reduction},
    transport::Transport,
};

/// A group whose ranks are NVIDIA's GPUs, one for each. Its operations run on a stream of the device, one
/// after the other, and values do not pass through the host.
///
/// NCCL chooses the order of additions, so sums of floats may have other bits than those of a
/// [`HostGroup`](crate::HostGroup), although all ranks get the same ones. There are no announcements: ranks
/// that call different operations, or that end, make the others hang, as with NCCL itself.
///
/// It was tested on a library that stands in for NVIDIA's, and not on GPUs.
pub struct NcclGroup {
    communicator: NcclCommunicator,
    stream: Stream,
    failure: Mutex<Option<CollectiveError>>,
}

impl NcclGroup {
    /// A group whose operations run on a stream of a CUDA device, which nothing else should use. The
    /// ranks find each other over a transport, which is not used afterwards.
    ///
    /// # Errors
    /// A rank that does not come within `timeout`; a machine of rank 0 without NCCL.
    pub fn new(transport: &dyn Transport, stream: Stream, timeout: Duration) -> Result<NcclGroup> {
        let (rank, size) = (transport.rank(), transport.size());
        let made = (rank == 0).then(NcclUniqueId::new);
        let mut bytes = [0; 129]; // 1 and the identifier, or 0 for none
        if let Some(Ok(id)) = &made {
            bytes[0] = 1;
            bytes[1..].copy_from_slice(&id.to_bytes());
        }
        const OPERATION: &str = "connecting by NCCL";
        transport.meet(&Announcement::new(OPERATION), timeout)?;
        let sent = transport.broadcast(&mut bytes, 0);
        transport.done();
        sent?;
        made.transpose()?;
        let Some((1, id)) = bytes.split_first().map(|(made, id)| (*made, id)) else {
            let (operation, message) = (OPERATION.to_owned(), "it has no NCCL".to_owned());
            return Err(CollectiveError::RankFailed { operation, rank: 0, message });
        };
        let mut own = [0; 128];
        own.copy_from_slice(id);
        let communicator = NcclCommunicator::new(NcclUniqueId::from_bytes(own), rank, size);
        Ok(NcclGroup { communicator, stream, failure: Mutex::default() })
    }

    /// The stream on which operations run.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn schedule(
        &self,
        context: &Context,
        nodes: &[TensorNode],
        operation: &NcclOperation,
        name: &str,
    ) -> Result<Event> {
        if let Some(failure) = self.failure() {
            return Err(CollectiveError::Failed(failure.to_string()));
        }
        let name = format!("{name} of {}", short_names(nodes));
        let scheduled = self.communicator.schedule(context, &self.stream, nodes, operation, &name);
        scheduled.map_err(|error| {
            let error = CollectiveError::from(error);
            // Nodes that do not fit, or that the context lacks, leave the group as it was.
            if let CollectiveError::Nccl(source) = &error
                && let NcclError::Run(run) = &**source
                && matches!(**run, RunError::Driver { .. })
            {
                self.state().get_or_insert_with(|| error.clone());
            }
            error
        })
    }

    fn state(&self) -> MutexGuard<'_, Option<CollectiveError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node of bytes on the device.
    fn bytes(&self, context: &Context, name: &str, values: &[u8]) -> Result<(Context, TensorNode), RunError> {
        let node = TensorNode::builder(name).dims([values.len()]).dtype(DType::U8).build()?;
        let array = HostArray::from_slice(values, [values.len()])?;
        Ok((context.init_from_host(&node, array)?, node))
    }
}

/// The rank of each node, for nodes that belong to ranks.
fn roots(parts: &[Vec<TensorNode>], size: usize) -> Result<(Vec<TensorNode>, Vec<usize>)> {
    check_part_count(parts.len(), size)?;
    let owned = parts.iter().enumerate().flat_map(|(rank, nodes)| nodes.iter().map(move |node| (node, rank)));
    Ok(owned.map(|(node, rank)| (node.clone(), rank)).unzip())
}

fn reduction(by: Reduction) -> NcclReduction {
    match by {
        Reduction::Sum => NcclReduction::Sum,
        Reduction::Max => NcclReduction::Max,
        Reduction::Min => NcclReduction::Min,
    }
}

impl Group for NcclGroup {
    fn rank(&self) -> usize {
        self.communicator.rank()
    }

    fn size(&self) -> usize {
        self.communicator.size()
    }

    fn all_reduce(&self, context: &Context, nodes: &[TensorNode], by: Reduction) -> Result<Event> {
        common_type(nodes)?;
        self.schedule(context, nodes, &NcclOperation::AllReduce(reduction(by)), "all_reduce")
    }

    fn reduce_scatter(
        &self,
        context: &Context,
        from: &TensorNode,
        into: &TensorNode,
        by: Reduction,
    ) -> Result<Event> {
        let nodes = [from.clone(), into.clone()];
        common_type(&nodes)?;
        check_parts(from, into, self.size())?;
        self.schedule(context, &nodes, &NcclOperation::ReduceScatter(reduction(by)), "reduce_scatter")
    }

    fn all_gather(&self, context: &Context, from: &TensorNode, into: &TensorNode) -> Result<Event> {
        check_parts(into, from, self.size())?;
        self.schedule(context, &[from.clone(), into.clone()], &NcclOperation::AllGather, "all_gather")
    }

    fn reduce_scatter_nodes(
        &self,
        context: &Context,
        parts: &[Vec<TensorNode>],
        by: Reduction,
    ) -> Result<Event> {
        let (nodes, roots) = roots(parts, self.size())?;
        common_type(&nodes)?;
        self.schedule(context, &nodes, &NcclOperation::Reduce(reduction(by), roots), "reduce_scatter")
    }

    fn all_gather_nodes(&self, context: &Context, parts: &[Vec<TensorNode>]) -> Result<Event> {
        let (nodes, roots) = roots(parts, self.size())?;
        self.schedule(context, &nodes, &NcclOperation::Broadcast(roots), "all_gather")
    }

    fn broadcast(&self, context: &Context, nodes: &[TensorNode], root: usize) -> Result<Event> {
        check_root(root, self.size())?;
        self.schedule(context, nodes, &NcclOperation::Broadcast(vec![root; nodes.len()]), "broadcast")
    }

    fn barrier(&self) -> Result<()> {
        let (context, node) = self.bytes(&Context::new(&self.stream), "barrier", &[0])?;
        let sum = NcclOperation::AllReduce(NcclReduction::Sum);
        Ok(self.schedule(&context, &[node], &sum, "barrier")?.sync()?)
    }

    fn check_equal(&self, context: &Context, nodes: &[TensorNode]) -> Result<()> {
        let mut digest = Xxh3::new();
        for node in nodes {
            digest.update(context.to_host(node)?.bytes());
        }
        let own = digest.digest().to_le_bytes();
        let (context, part) = self.bytes(&Context::new(&self.stream), "digest", &own)?;
        let (context, whole) = self.bytes(&context, "digests", &vec![0; own.len() * self.size()])?;
        self.all_gather(&context, &part, &whole)?;
        check_digests(context.to_host(&whole)?.bytes(), &names(nodes))
    }

    fn failure(&self) -> Option<CollectiveError> {
        self.state().clone()
    }
}
