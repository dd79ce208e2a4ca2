//! Code of object files computes the bits of code that is compiled in the process.
#![allow(clippy::print_stdout, reason = "reports are printed")]

mod bad_input;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod c_program;
mod files;
mod graphs;
mod kernels;
mod loader;
mod programs;
