#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod options; // the codegen's options

mod builder; // writes naga's IR; no other module does
mod emit; // loop IR -> module

mod module; // the codegen
mod text; // validation, and writing texts

pub use crate::module::{Rendered, Wgsl, wgsl};
pub use crate::options::{WgslOptions, baseline_caps};
