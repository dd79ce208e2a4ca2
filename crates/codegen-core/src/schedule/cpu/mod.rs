//! For targets without workgroups: which loops run in step, what of their data needs no memory, and the shapes of nests that run
//! across memory.

mod columns; // reductions along another axis than the contiguous one
mod forward; // values instead of what was just stored
mod fuse; // loops in step
mod interchange; // loops in the order of others
mod matrices; // contractions that fusion leaves alone
mod reuse; // arrays in the place of others
mod rows; // long rows in pairs
mod shrink; // arrays of one iteration
mod spill; // partial results for threads
mod transpose; // reads across what is written

pub(super) use columns::stream;
pub(super) use forward::forward;
pub(super) use fuse::fuse;
pub(super) use reuse::reuse;
pub(super) use rows::pairs;
pub(super) use shrink::shrink;
pub(super) use spill::spill;
pub(super) use transpose::tile as transpose;
