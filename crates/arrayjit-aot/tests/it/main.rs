//! Code of object files computes the bits of code that is compiled in the process.
#![allow(clippy::print_stdout, reason = "reports are printed")]

mod bad_input;
mod files;
mod kernels;
mod loader;
mod programs;
