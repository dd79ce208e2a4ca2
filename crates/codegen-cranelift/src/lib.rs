#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod options;

mod choice;

mod caps;
mod support;

mod vector;

mod composite;

mod emit;
mod runtime_functions;

mod compile;
mod disassemble;
mod jit;
pub mod object; // kernels for object files, which another process links
mod perf_map;
mod relocate;
mod store; // modules as data that outlives the process

#[cfg(all(test, target_arch = "x86_64"))]
mod traps; // a test: the machine code of all compilers has no instruction that traps

tnode::debug_as_display!(object::EntryError, object::TargetError);

pub use crate::caps::host_caps;
pub use crate::compile::{Cranelift, CraneliftCompiler, cranelift, cranelift_with, listing};
pub use crate::options::{CraneliftOptions, VectorWidth};
pub use crate::support::{CheckedKernel, CraneliftRenderer};
