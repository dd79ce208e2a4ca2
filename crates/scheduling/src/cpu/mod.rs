//! Passes for targets without workgroups: fusion and forwarding, vectors and tiles, threads.

// Passes, in the order of the pipeline.
pub(crate) mod block_rows;
pub(crate) mod contract_arrays;
pub(crate) mod fold_storage;
pub(crate) mod forward_stores;
pub(crate) mod fuse_loops;
pub(crate) mod fuse_strips;
pub(crate) mod pad_nodes; // margins of local nodes
pub(crate) mod pad_operands; // padded copies of operands of convolutions
pub(crate) mod parallelize;
pub(crate) mod permute_axes; // layouts of local nodes
pub(crate) mod split_triangles;
pub(crate) mod store_partial_results;
pub(crate) mod tile_rejected; // contractions that the codegen does not compile whole
pub(crate) mod unroll_short_rows; // rows shorter than a vector
pub(crate) mod vectorize;

// Shapes of nests that `vectorize` knows.
mod pair_rows; // reductions of long rows
mod split_guards; // guarded reads of narrow elements
mod stream_reduction; // reductions along another axis than the contiguous one
mod tile_contraction; // register tiles
mod tile_transpose; // loads and stores contiguous along different axes

// Questions that fusion asks.
mod fusible_contractions; // whether a contraction keeps its loops
mod interchange; // loops in the order of another nest
