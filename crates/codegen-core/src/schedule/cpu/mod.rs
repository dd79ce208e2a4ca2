//! For targets without workgroups: which loops run in step, and what of their data needs no memory.

mod forward; // values instead of what was just stored
mod fuse; // loops in step
mod matrices; // contractions that fusion leaves alone
mod shrink; // arrays of one iteration

pub(super) use forward::forward;
pub(super) use fuse::fuse;
pub(super) use shrink::shrink;
