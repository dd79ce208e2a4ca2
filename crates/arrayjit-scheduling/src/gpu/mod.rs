//! Passes for targets with workgroups: kernel fusion and thread mapping.
//!
//! [`map_threads`] turns each top-level nest into nested parallel loops. Their iterations are threads or, if
//! workgroup loops stand inside, workgroups: the form that [`codegen_core::form`] checks. It tries the shapes
//! below one after another.

// Passes, in the order of the pipeline.
pub(crate) mod constant_ends;
pub(crate) mod fuse_attention;
pub(crate) mod fuse_kernels;
pub(crate) mod map_threads;
pub(crate) mod promote_registers;
pub(crate) mod reset_schedule;
pub(crate) mod sink_scalars;
pub(crate) mod split_products;

// Shapes of nests that `map_threads` knows.
mod column_reduction;
mod split_reduction;
mod split_scatter;
mod sum_of_rows;
mod tensor_cores;
mod thread_per_output;
mod tile_contraction; // contractions, in tiles in shared memory
mod transpose; // loads and stores contiguous along different axes
mod workgroup_per_row;

// Parts that the shapes share.
mod accumulation;
mod adjacent_loops;
mod context;
mod phases;
mod register_rows;
mod shared_copy;
mod shared_rows;
mod tree_reduction;
mod vector_access;
mod work_distribution;
