//! Code of object files computes the bits of code that is compiled in the process.
#![allow(clippy::print_stdout, reason = "reports are printed")]

mod abi;
#[cfg(all(feature = "cross", target_arch = "x86_64", target_os = "linux"))]
mod arm64;
mod bad_input;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod c_program;
mod command;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod example;
#[cfg(any(feature = "cross", target_arch = "x86_64"))]
mod files; // of x86-64's levels
mod graphs;
mod kernels;
#[cfg(all(feature = "cross", target_arch = "x86_64", target_os = "linux"))]
mod linkers;
mod onnx;
#[allow(dead_code, reason = "tests of another crate need more")]
#[path = "../../../arrayjit-onnx/tests/it/build.rs"]
mod onnx_builder;
mod programs;
mod random;
mod speed;
mod threads;
