//! Passes for targets without workgroups: fusion and forwarding, vectors and tiles, threads.

// Passes, in the order of the pipeline.
pub(crate) mod block_rows;
pub(crate) mod bound_masks;
pub(crate) mod contract_arrays;
pub(crate) mod fold_storage;
pub(crate) mod forward_stores;
pub(crate) mod fuse_loops;
pub(crate) mod jam_rows;
pub(crate) mod nest_reductions;
pub(crate) mod pad_nodes;
pub(crate) mod pad_operands;
pub(crate) mod parallelize;
pub(crate) mod permute_axes;
pub(crate) mod share_locals;
pub(crate) mod store_partial_results;
pub(crate) mod tile_rejected;
pub(crate) mod transpose_operands;
pub(crate) mod unroll_short_rows;
pub(crate) mod vectorize;

// Shapes of nests that `vectorize` knows.
mod decode_operand; // products of operands that are computed from bytes
mod split_guards;
mod stream_reduction;
mod strip_dynamic;
mod tile_contraction;
mod tile_transpose; // loads and stores contiguous along different axes
mod unroll_fields; // short loops whose variable is a value

// Questions that fusion asks.
mod equal_parts; // what it did with equal statements
mod fusible_contractions; // whether a contraction keeps its loops
mod interchange;
mod placed_stmt; // facts that stay with a statement
