//! Work divided over streams: calls in turns, arrays in shards, and sums by a tree of merges.

mod merge_tree; // who adds to whom
mod round_robin; // calls in turns
mod shard; // arrays in equal parts

pub use self::{
    merge_tree::{Merge, merge_tree},
    round_robin::round_robin,
    shard::{ShardError, gather, shard},
};
