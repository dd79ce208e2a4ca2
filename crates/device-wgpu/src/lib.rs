//! GPUs through wgpu, as a [`device_runtime::Driver`]: Vulkan, Metal or Direct3D 12.
//!
//! # Should I be using this crate?
//!
//! To run shaders through `device-runtime`: yes, [`WgpuDevice::open`] is a driver for it. To compute
//! something: use `arrayjit`, where it is the backend `wgpu`.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use device_runtime::{Context, Device};
//! use device_wgpu::{Config, WgpuDevice};
//! use tnode::{DType, HostArray, TensorNode};
//!
//! let driver = match WgpuDevice::open(&Config::default()) {
//!     Ok(driver) => driver,
//!     // A machine without a GPU, or without a driver for it.
//!     Err(error) => return Ok(println!("{error}")),
//! };
//! let cap = driver.pool_cap();
//! let device = Device::with_pool_cap(Arc::new(driver), 0, cap);
//! let x = TensorNode::builder("x").dims([3]).dtype(DType::F32).build()?;
//! let context = Context::new(&device.new_stream()?);
//! let context = context.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3.], [3])?)?;
//! assert_eq!(context.to_host(&x)?.values(), [1., 2., 3.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * Code is the text of a [`codegen_core::ShaderModule`] and runs with wgpu's checks, so that no shader
//!   accesses memory that is not bound to it.
//! * Nothing panics or hangs when a device is lost: unfinished tasks fail with
//!   [`device_runtime::DriverError::Lost`].
//! * Memory is released when the last task that uses it is done; [`device_runtime::Driver::used_memory`]
//!   returns to zero.
//! * A host that runs ahead of the device submits few batches, whatever the number of launches.
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
