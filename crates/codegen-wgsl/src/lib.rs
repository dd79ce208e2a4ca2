//! Compiles scheduled IR to shaders: WGSL for WebGPU, and from the same module SPIR-V, Metal and HLSL.
#![forbid(unsafe_code)]

mod options; // what may be chosen
mod refusal; // what is not supported

mod launch; // grid and workgroups of a kernel
mod plan; // which loops repeat, where locals live
mod scan; // facts about statements

mod builder; // naga's IR, and nothing else of naga's
mod emit; // loop IR -> module

mod module; // the codegen
mod text; // validation and text

pub use crate::module::{Rendered, Wgsl, wgsl};
pub use crate::options::{WgslOptions, baseline_caps};
