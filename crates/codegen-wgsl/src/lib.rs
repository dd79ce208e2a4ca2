#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod options;

mod builder;
mod emit;

mod module;
mod text;

pub use crate::module::{NagaKernel, Wgsl, wgsl};
pub use crate::options::{WgslOptions, baseline_caps};
