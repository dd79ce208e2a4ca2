#![doc = include_str!("../README.md")]
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
