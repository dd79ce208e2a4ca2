//! Work divided over streams: round-robin calls, sharded arrays, sums by a tree of merges, and training made
//! of these.
//!
//! Streams of one device share nodes that they only read. The values of nodes that each stream has for itself
//! are combined in [merge buffers]: a stream adds another one's values to its own, in an order that depends
//! on the number of streams alone, so the bits of a result depend only on that number.
//!
//! [merge buffers]: crate::MergeBufferUse

mod data_parallel; // rounds of gradients, and an update after each
mod merge_tree; // the order of additions
mod round_robin; // calls in turns
mod shard; // arrays in equal parts
mod spread; // copies for every stream
mod tree_sum; // sums by merges

pub use crate::error::ParallelError;

pub use self::{
    data_parallel::{DataParallel, DataParallelJob},
    merge_tree::{Merge, merge_tree},
    round_robin::round_robin,
    shard::{gather, shard},
    spread::{all_reduce, broadcast, replicate},
    tree_sum::MergeMethod,
};
