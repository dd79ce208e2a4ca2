#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod device;

// Opening.
mod adapter;
mod caps;

// Memory.
mod free_list;
mod slab;
mod staging;

// Running kernels and copies.
mod command; // the tasks of streams
mod encode;
mod event;
mod grid;
mod kernel;
mod packing;
mod shared_state;
mod stream; // batches in order
mod timing;

mod gpu;

#[cfg(test)]
mod failures;

pub use crate::{
    adapter::{AdapterChoice, AdapterInfo, AdapterKind, WgpuOpenError, adapters},
    device::{WgpuConfig, WgpuDevice},
};

tnode::debug_as_display!(WgpuOpenError);
