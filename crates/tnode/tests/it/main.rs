//! The integration tests that may share a process, as one program, since each program costs a link.

mod conversions;
#[cfg(feature = "files")]
mod files;
mod host_arrays;
mod modes;
mod names;
mod nodes;
