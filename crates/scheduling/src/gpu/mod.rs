//! Passes for targets with workgroups: kernel fusion and thread mapping.
//!
//! [`map_threads`] turns each top-level nest into nested parallel loops. Their iterations are threads or, if
//! workgroup loops stand inside, workgroups: the form that [`codegen_core::form`] checks. It tries the shapes
//! below one after another.

// Passes, in the order of the pipeline.
pub(crate) mod expand_scalars;
pub(crate) mod fuse_kernels;
pub(crate) mod map_threads;
pub(crate) mod promote_registers;
pub(crate) mod reset_schedule;
pub(crate) mod sink_scalars;

// Shapes of nests that `map_threads` knows.
mod column_reduction; // reductions along another axis than the contiguous one
mod split_reduction; // long reductions with few outputs, in two passes
mod tensor_cores; // matmuls that the codegen takes whole
mod thread_per_output; // independent iterations
mod tile_contraction; // contractions, in tiles in shared memory
mod transpose; // loads and stores contiguous along different axes
mod workgroup_per_row; // cooperative reductions

// Parts that the shapes share.
mod accumulation; // accumulations into a scalar
mod adjacent_loops; // fusion of neighbouring loops
mod context; // names, nodes and limits
mod phases; // the statements of a row, by how threads share them
mod register_rows; // elements of rows in registers
mod shared_copy; // copies into shared memory
mod shared_rows; // rows in shared memory
mod tree_reduction; // partial results of threads
mod vector_access; // vectorised access to neighbours
mod work_distribution; // iterations of a loop among threads
