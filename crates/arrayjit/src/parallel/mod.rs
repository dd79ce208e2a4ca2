//! Work divided over streams: calls in turns, arrays in shards, sums by a tree of merges, and training made of these.
//!
//! Streams of one device share what they only read. What each has for itself comes together in [merge buffers]: a
//! stream adds another one's values to its own, in an order that depends on the number of streams alone, so that results have the
//! same bits in every run. The values themselves depend on that number, as sums of floats do on their order.
//!
//! [merge buffers]: crate::MergeBufferUse

mod data_parallel; // rounds of gradients, and a step after each
mod error;
mod merge_tree; // who adds to whom
mod round_robin; // calls in turns
mod shard; // arrays in equal parts
mod spread; // copies for every stream
mod tree_sum; // sums by merges

pub use self::{
    data_parallel::{DataParallel, DataParallelJob},
    error::ParallelError,
    merge_tree::{Merge, merge_tree},
    round_robin::round_robin,
    shard::{ShardError, gather, shard},
    spread::{all_reduce, broadcast, replicate},
    tree_sum::MergeBy,
};
