#![doc = include_str!("../README.md")]
#![no_std]

mod functions; // functions that kernels call
mod level; // levels of processors
mod memory; // aligned memory
mod run; // calls of entries

pub use level::{Level, UnsupportedProcessor, select};
pub use memory::{Aligned, Arena};
pub use run::{Entry, RunError, run};
