//! For targets without workgroups: which loops run in step, what of their data needs no memory, and the shapes of nests that run
//! across memory.

mod columns; // reductions along another axis than the contiguous one
pub(crate) mod contraction; // register tiles
mod forward; // values instead of what was just stored
mod fuse; // loops in step
mod interchange; // loops in the order of others
mod matrices; // contractions that fusion leaves alone
mod parallel; // loops over threads
mod reuse; // arrays in the place of others
mod rows; // long rows in pairs
mod shrink; // arrays of one iteration
mod spill; // partial results for threads
mod tile_rejected; // register tiles for contractions that no codegen takes
mod transpose; // reads across what is written
mod vectorize; // lanes

pub(crate) use columns::stream;
pub(crate) use forward::forward;
pub(crate) use fuse::fuse;
pub(crate) use parallel::parallelize;
pub(crate) use reuse::reuse;
pub(crate) use rows::pairs;
pub(crate) use shrink::shrink;
pub(crate) use spill::spill;
pub(crate) use tile_rejected::tile_rejected;
pub(crate) use transpose::tile as transpose;
pub(crate) use vectorize::vectorize;
