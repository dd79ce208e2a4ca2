#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod options;

mod unroll;
mod warp_reductions;

mod builder;
mod emit;
mod tensor_cores;

mod module;
mod vouch;

pub use crate::module::{Ptx, PtxKernels, ptx};
pub use crate::options::{PtxOptions, TensorCoreInstructions, ptx_caps};
pub use ptx_asm::Target;
