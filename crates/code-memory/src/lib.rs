#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod free_ranges;

mod chunk;

mod barrier;

mod arena;

pub use crate::arena::{ALIGNMENT, CodeMemoryUsage, LoadedCode, usage};
