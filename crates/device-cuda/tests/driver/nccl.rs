//! Exchanges between devices by NCCL: values, order, failures.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use crate::support::*;
use device_cuda::{
    CudaConfig, NcclCommunicator, NcclError, NcclOperation as Operation, NcclReduction as Reduction,
    NcclUniqueId,
};
use device_runtime::{Context, Device, DriverError, NullDevice, RunError, Stream};
use tnode::{DType, HostArray, TensorNode};

/// A rank: a device, the stream of its exchanges, and the nodes `x`, `part` and `whole`.
struct Rank {
    device: Device,
    communicator: NcclCommunicator,
    stream: Stream,
    context: Context,
    nodes: [TensorNode; 3],
}

impl Rank {
    fn new(id: NcclUniqueId, rank: usize) -> Rank {
        let driver = open(&CudaConfig { ordinal: rank as u32, ..CudaConfig::default() });
        let device = Device::new(Arc::clone(driver.driver()) as Arc<_>, rank);
        let nodes = [("x", 4), ("part", 2), ("whole", 4)].map(|(name, size)| node(name, size));
        let start = rank as i32 * 10;
        let context = context(&device)
            .init_from_host(&nodes[0], array(&[start, start + 1, start + 2, start + 3]))
            .unwrap()
            .init_from_host(&nodes[1], array(&[start + 4, start + 5]))
            .unwrap()
            .init_from_host(&nodes[2], array(&[7; 4]))
            .unwrap();
        let stream = device.new_stream().unwrap();
        Rank { device, communicator: NcclCommunicator::new(id, rank, 2), stream, context, nodes }
    }

    fn schedule(&self, nodes: &[usize], operation: &Operation) -> Result<(), NcclError> {
        let nodes: Vec<TensorNode> = nodes.iter().map(|&at| self.nodes[at].clone()).collect();
        self.communicator.schedule(&self.context, &self.stream, &nodes, operation, "an exchange").map(drop)
    }

    fn values(&self, at: usize) -> Vec<i32> {
        values(&self.context, &self.nodes[at])
    }
}

fn two_ranks() -> [Rank; 2] {
    let id = NcclUniqueId::new().unwrap();
    let id = NcclUniqueId::from_bytes(id.to_bytes());
    [0, 1].map(|rank| Rank::new(id, rank))
}

fn on_both(ranks: &[Rank; 2], nodes: &[usize], operation: &Operation) {
    ranks.iter().for_each(|rank| rank.schedule(nodes, operation).unwrap());
}

/// Each operation, one after the other on the same nodes, also while values are being written.
fn all_operations() {
    let ranks = two_ranks();
    on_both(&ranks, &[0, 1], &Operation::AllReduce(Reduction::Sum));
    on_both(&ranks, &[0], &Operation::AllReduce(Reduction::Max));
    for rank in &ranks {
        assert_eq!((rank.values(0), rank.values(1)), (vec![10, 12, 14, 16], vec![18, 20]));
    }
    on_both(&ranks, &[0, 2], &Operation::Reduce(Reduction::Sum, vec![1, 0]));
    assert_eq!((ranks[1].values(0), ranks[0].values(2)), (vec![20, 24, 28, 32], vec![14; 4]));
    on_both(&ranks, &[0, 2], &Operation::Broadcast(vec![1, 0]));
    for rank in &ranks {
        assert_eq!((rank.values(0), rank.values(2)), (vec![20, 24, 28, 32], vec![14; 4]));
    }
    on_both(&ranks, &[0, 1], &Operation::ReduceScatter(Reduction::Min));
    assert_eq!((ranks[0].values(1), ranks[1].values(1)), (vec![20, 24], vec![28, 32]));
    let _ = ranks[1].context.from_host(&ranks[1].nodes[1], array(&[1, 2])).unwrap();
    on_both(&ranks, &[1, 2], &Operation::AllGather);
    let _ = ranks[0].context.from_host(&ranks[0].nodes[1], array(&[0, 0])).unwrap();
    for rank in &ranks {
        assert_eq!(rank.values(2), [20, 24, 1, 2]);
    }
    for rank in ranks {
        let Rank { device, .. } = rank;
        drop(device);
    }
}

#[test]
fn nodes_have_the_values_of_all_ranks() {
    for seed in 1..6 {
        let notes = on_fake(&format!("devices=2 seed={seed}"), all_operations);
        let Some(notes) = notes else { continue };
        // Each node of an operation is an exchange of the library, which both ranks make together.
        assert_eq!(notes.count("exchange"), 9);
        assert_eq!((notes.count("connect"), notes.count("disconnect")), (2, 2));
    }
}

#[test]
fn a_call_that_the_library_rejects_fails_the_stream() {
    on_fake("devices=2 nccl=5", || {
        let ranks = two_ranks();
        let error = ranks[0].schedule(&[0], &Operation::AllReduce(Reduction::Sum)).unwrap_err().to_string();
        assert!(error.contains("an exchange") && error.contains("ncclAllReduce"), "{error}");
        assert!(error.contains("an error of NCCL (5): invalid usage"), "{error}");
        let later = ranks[0].schedule(&[0], &Operation::AllReduce(Reduction::Sum)).unwrap_err().to_string();
        assert_eq!(later, error);
    });
}

#[test]
fn nodes_that_do_not_fit_are_named() {
    on_fake("devices=2", || {
        let rank = Rank::new(NcclUniqueId::new().unwrap(), 0);
        let message = |nodes: &[usize], operation| rank.schedule(nodes, &operation).unwrap_err().to_string();
        let text = message(&[0, 2], Operation::ReduceScatter(Reduction::Sum));
        assert!(text.starts_with("reduce_scatter: node `x` of i32 and 16 bytes, expected 2 times"), "{text}");
        assert_eq!(message(&[0], Operation::AllGather), "all_gather: 1 nodes, expected two nodes");
        let text = message(&[0, 1], Operation::Broadcast(vec![2, 0]));
        assert_eq!(text, "a broadcast: the ranks [2, 0] for 2 nodes, expected a rank below 2 for each node");
        let text = message(&[0, 0], Operation::AllReduce(Reduction::Sum));
        assert!(text.contains("an exchange"), "{text}");

        let flags = TensorNode::builder("flags").dims([4]).dtype(DType::Bool).build().unwrap();
        let context =
            rank.context.init_from_host(&flags, HostArray::zeros(DType::Bool, [4]).unwrap()).unwrap();
        let sum = Operation::AllReduce(Reduction::Sum);
        let error = rank.communicator.schedule(&context, &rank.stream, &[flags], &sum, "sum").unwrap_err();
        assert_eq!(error.to_string(), "node `flags`: NCCL has no elements of type bool");
    });
}

#[test]
fn other_devices_know_no_exchanges() {
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    let x = node("x", 4);
    let context = context(&device).init_from_host(&x, array(&[1, 2, 3, 4])).unwrap();
    let communicator = NcclCommunicator::new(NcclUniqueId::from_bytes([0; 128]), 0, 1);
    let sum = Operation::AllReduce(Reduction::Sum);
    let error = communicator.schedule(&context, context.stream(), &[x], &sum, "sum").unwrap_err();
    let NcclError::Run(error) = &error else { panic!("{error}") };
    assert!(
        matches!(&**error, RunError::Driver { source: DriverError::NoDeviceTasks { .. }, .. }),
        "{error}"
    );
}

#[test]
fn a_machine_without_the_library_says_so() {
    on_library(std::path::Path::new("no such library"), "", || {
        let error = NcclUniqueId::new().unwrap_err();
        assert!(matches!(&error, NcclError::NoLibrary(names) if !names.is_empty()), "{error}");
        assert!(error.to_string().contains("libnccl.so"), "{error}");
    });
}
