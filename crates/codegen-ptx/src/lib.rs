#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod options; // options and capabilities

mod unroll; // unrolling of innermost loops
mod warp_reductions; // reductions by warp shuffles

mod builder; // instructions with shared index arithmetic
mod emit; // loop IR -> instructions
mod tensor_cores; // matmuls on tensor cores

mod module; // the codegen
mod vouch; // artifacts: the crate's unsafe code

pub use crate::module::{Ptx, Rendered, ptx};
pub use crate::options::{PtxOptions, TensorCoreInstructions, ptx_caps};
pub use ptx_asm::Target;
