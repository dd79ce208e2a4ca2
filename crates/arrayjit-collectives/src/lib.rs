#![doc = include_str!("../README.md")]
mod announcement;
mod buckets;
mod checks;
mod error;
mod group;
mod host_group;
pub mod local;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "cuda")]
mod nccl_group;
mod reduce;
mod timeline;
mod transport;

pub use crate::{
    announcement::Announcement,
    buckets::{BucketSizes, GradientBucket, split_gradient},
    error::{CollectiveError, Result},
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
