//! NVIDIA's processors as a [`device_runtime::Driver`].
//!
//! # Should I be using this crate?
//!
//! To run PTX through `device-runtime`: yes, [`CudaDevice::open`] is a driver for it. To compute something: use `arrayjit`, where it is
//! the backend `cuda`.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use device_cuda::{Config, CudaDevice};
//! use device_runtime::{Context, Device};
//! use tnode::{DType, HostArray, TensorNode};
//!
//! let driver = match CudaDevice::open(&Config::default()) {
//!     Ok(driver) => driver,
//!     // A machine without such a processor, or without a driver for it.
//!     Err(error) => return Ok(println!("{error}")),
//! };
//! let device = Device::new(Arc::new(driver), 0);
//! let x = TensorNode::builder("x").dims([3]).dtype(DType::F32).build()?;
//! let context = Context::new(&device.new_stream()?);
//! let context = context.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3.], [3])?)?;
//! assert_eq!(context.to_host(&x)?.values(), [1., 2., 3.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it needs
//!
//! Nothing to build it. To run, NVIDIA's driver for CUDA 12.0 or later, and a processor of compute capability 7.0 or later. No toolkit:
//! the driver compiles PTX itself. The library is found as the system's loader finds `libcuda.so` or `libcuda.so.1` (`nvcuda.dll` on
//! Windows). With [`Config::code_folder`] and a `ptxas`, machine code is kept from process to process.
//!
//! # What failures say
//!
//! | [`OpenError`] | It means | What to do |
//! |---|---|---|
//! | `NoDriver` | no library of any of the names listed | install the driver, or set `LD_LIBRARY_PATH` |
//! | `NoSymbol` | a driver from before CUDA 12 | install a newer one |
//! | `NotStarted` | the driver refuses to start, with its own words | often a driver and a kernel module of two versions: restart |
//! | `NoDevice` | the driver sees no device | look at `CUDA_VISIBLE_DEVICES`, and at what a container is given |
//! | `NoSuchDevice` | an ordinal beyond the devices listed | choose one of them |
//! | `Unsupported` | a processor from before compute capability 7.0 | use another backend |
//! | `OldDriver` | the driver does not take the PTX that the processor's target needs | install a newer one |
//! | `Refused` | the driver refuses the device, with its own words | another process may have it, or it is lost |
//!
//! When it runs, [`device_runtime::DriverError`] names the call and has the driver's own name, number and words for what is wrong:
//!
//! * `CodeRefused` has the kernel, the line of PTX, and what the driver's compiler said: a bug of a codegen.
//! * `BadLaunch` has what a kernel's launch says of clusters and tensor maps and the device or the text does not allow: a bug of a codegen,
//!   or code for another processor.
//! * `TooLarge` and `TooManyGroups` have the kernel, and what it needs and the device gives.
//! * `OutOfMemory`, and for the log of a kernel `NoRoomForLog`, come after everything that was freed was waited for. They leave nothing allocated.
//! * `Failed` is a task that the driver refused. Its stream works again after a reset.
//! * `Lost`: a kernel did something that the processor does not forgive, such as reaching an address that is nobody's, or the
//!   processor itself failed. NVIDIA's driver says so some time later, and of everything on the device; the message has the stream
//!   that saw it first and the kernels that were on it. Everything that is not done fails with it, on every stream. Drop all that was
//!   made for the device, and open it again; where the driver refuses that, it takes a new process.
//!
//! # Promises
//!
//! * Nothing here panics without a driver, or with a bad one.
//! * Copies between host and device go through memory that the device reaches by itself, up to 16 MiB of a stream on their way at a time;
//!   larger ones wait for their own stream. A host array is read before the copy's hand-over returns, and filled when somebody sees
//!   that the copy is done.
//! * A routine of several kernels, of which none logs, is one task from its second run on, a graph of the driver's; what fails in it fails as if
//!   its kernels had been launched one by one.
//! * A run of a kernel that logs is done when its log has been told; logs of a stream come in the order of the runs, and no lock is held meanwhile.
//!   A log that has not arrived when the device is lost is lost with it.
//! * Memory goes back when the last task that uses it is done, without waiting for the device; [`device_runtime::Driver::used_memory`]
//!   returns to zero. Waits between streams, of several devices too, are the device's.
#![deny(unsafe_code)]

mod device; // the driver

// Opening.
mod caps; // what a device can do
mod open; // which devices there are

// Work.
mod core; // what all streams share
mod event; // points in a stream
mod kernel; // text to functions bound to memory
mod maps; // tensors whose tiles kernels copy
mod sequence; // kernels launched together, again and again
mod stream; // tasks in order

// Code.
mod cubin; // machine code kept on disk
mod ptx; // what a text says about itself

mod api; // NVIDIA's driver as a safe interface

pub use crate::{
    device::CudaDevice,
    open::{Config, DeviceInfo, OpenError, devices},
};

tnode::debug_as_display!(OpenError);
