#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod options; // options of the generated code

mod choice; // choices between forms of code with the same bits

mod caps; // the capabilities of this CPU
mod support; // supported operations by type

mod render; // kernels to checked kernels

mod vector; // loop IR to vector programs

mod composite; // kernels with contractions as GEMM plans and other parts

mod emit; // loop IR to CLIF
mod runtime_functions; // functions that kernels call at run time

mod compile; // kernels to machine code, in parallel
mod disassemble; // instructions as text
mod jit; // loading of code; with `composite::run`, the crate's unsafe code
mod perf_map; // names of kernels for profilers
mod relocate; // relocations of Cranelift's code

#[cfg(all(test, target_arch = "x86_64"))]
mod traps; // a test: the machine code of all compilers has no instruction that traps

pub use crate::caps::host_caps;
pub use crate::compile::{Cranelift, CraneliftCompiler, cranelift, cranelift_with, listing};
pub use crate::options::{CraneliftOptions, VectorWidth};
pub use crate::render::{CheckedKernel, CraneliftRenderer};
