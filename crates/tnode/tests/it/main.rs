//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

mod conversions;
#[cfg(feature = "files")]
mod files;
mod host_arrays;
mod modes;
mod names;
mod nodes;
#[cfg(feature = "files")]
mod torch_files;
