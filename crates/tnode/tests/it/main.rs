//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

mod conversions;
#[cfg(feature = "files")]
mod files;
mod host_arrays;
mod modes;
mod names;
#[cfg(feature = "ndarray")]
mod ndarrays;
mod nodes;
#[cfg(feature = "files")]
mod torch_files;
