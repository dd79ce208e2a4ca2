#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod free_ranges; // allocation of pages by best fit

mod chunk; // one mapping and its protection: the unsafe code

mod barrier; // invalidation of fetched instructions on other processors

mod arena; // all chunks and the code in them

pub use crate::arena::{ALIGNMENT, CodeMemoryUsage, LoadedCode, usage};
