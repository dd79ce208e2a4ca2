#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod device; // the driver

// Opening.
mod adapter; // listing and opening adapters
mod caps; // capabilities from limits and features

// Memory.
mod free_list; // free ranges of a slab
mod slab; // pools in slabs, slabs in buffers
mod staging; // buffers between host and device

// Running kernels and copies.
mod command; // the tasks of streams
mod encode; // commands to a command buffer
mod event; // points in a stream
mod grid; // workgroups over three dimensions
mod kernel; // text to pipelines bound to memory
mod packing; // memory in more slabs than a kernel binds
mod shared_state; // state that all streams share
mod stream; // batches in order
mod timing; // running times of kernels

mod gpu; // wgpu, with its errors as values

#[cfg(test)]
mod failures; // tests of tasks that fail

pub use crate::{
    adapter::{AdapterChoice, AdapterInfo, AdapterKind, OpenError, adapters},
    device::{Config, WgpuDevice},
    timing::KernelTime,
};

tnode::debug_as_display!(OpenError);
