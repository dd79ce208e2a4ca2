//! Collective operations on the arrays of several ranks: sums, gathers and broadcasts as tasks of streams.
//!
//! # Example
//!
//! Four ranks, here threads of one process, add up their values:
//!
//! ```
//! use arrayjit::{Backend, HostArray, TensorNode};
//! use arrayjit_collectives::{Group, HostGroup, Reduction, local};
//!
//! let sums = local::run(4, |transport| -> Result<Vec<f64>, Box<dyn std::error::Error + Send + Sync>> {
//!     let backend = Backend::open("multicore")?;
//!     let group = HostGroup::new(transport, backend.new_stream()?);
//!     let g = TensorNode::builder("g").dims([2]).build()?;
//!     let values = HostArray::from_slice(&[group.rank() as f32, 1.0], [2])?;
//!     let context = backend.context()?.init_from_host(&g, &values)?;
//!     group.all_reduce(&context, &[g.clone()], Reduction::Sum)?; // a task; nothing waits here
//!     Ok(context.to_host(&g)?.values())
//! });
//! assert!(sums.into_iter().all(|sum| sum.is_ok_and(|sum| sum == [6.0, 4.0])));
//! ```
//!
//! With the feature `mpi`, `mpi::run` in place of `local::run` gives the same program the processes that
//! `mpirun -n 4 program` starts, on one machine or on many, with the same bits.
//!
//! With the feature `cuda`, `NcclGroup` is a group of ranks on NVIDIA's GPUs, whose values NCCL exchanges
//! on the devices.
//!
//! # How it works
//!
//! [`Group`] is the trait that programs use. [`HostGroup`] implements it for ranks whose values are on the
//! host, over any [`Transport`] of bytes: the threads of [`local`], or the processes of MPI. Its operations
//! are [functions on the values of nodes](arrayjit::Context::access_on_host), scheduled on a stream of the
//! group. The runtime orders them like routines, so an exchange overlaps with whatever does not need its
//! result.
//!
//! A transport moves bytes only. Values are added here, in the order of
//! [`merge_tree`](arrayjit::parallel::merge_tree), because MPI promises no order of additions: each rank
//! adds up one part of all arrays and sends the sums to the others. So a result has the same bits on every
//! rank, in every run with as many ranks, with every transport, and as the sums of
//! [`DataParallel`](arrayjit::parallel::DataParallel) over as many streams of one process.
//!
//! # Failure
//!
//! Before an operation, each rank announces its name, types and sizes to the others. A rank that does not
//! come within [a time](HostGroup::with_timeout), or that calls another operation, is an error which names
//! it: [`HostGroup::failure`], and the failure of the task. Nodes of a failed operation have no values. An
//! error or a panic of one rank under `local::run` ends the waits of the others at once; under `mpi::run` it
//! is printed with the rank, and ends all processes.

mod announcement; // a rank's description of its next operation
mod buckets; // gradients in parts that are summed while later ones are computed
mod data_parallel; // training with the gradients of all ranks
mod error;
mod group; // the trait of groups
mod host_group; // groups over a transport
pub mod local; // ranks that are threads of this process
#[cfg(feature = "mpi")]
pub mod mpi; // ranks that are processes of MPI
#[cfg(feature = "cuda")]
mod nccl_group; // groups of NVIDIA's devices
mod reduce; // reductions in the order of merges
mod timeline; // one timeline of all ranks
mod transport; // the trait of transports

pub use crate::{
    announcement::Announcement,
    buckets::{BucketSizes, GradientBucket, split_gradient},
    data_parallel::{DataParallelRanks, DataParallelRanksJob, GradientPart},
    error::CollectiveError,
    group::{Group, Reduction, by_type},
    host_group::{GroupStatistics, HostGroup},
    timeline::join_timelines,
    transport::Transport,
};

#[cfg(feature = "cuda")]
pub use crate::nccl_group::NcclGroup;

/// The programs of the guide, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/distributed.md")]
struct Guide;
