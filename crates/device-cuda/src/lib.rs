//! NVIDIA GPUs as a [`device_runtime::Driver`].
//!
//! # Should I be using this crate?
//!
//! To run PTX through `device-runtime`: yes, [`CudaDevice::open`] is a driver for it. To compute something:
//! use `arrayjit`, where it is the backend `cuda`.
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
//!     // A machine without an NVIDIA GPU, or without a driver for it.
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
//! # Requirements
//!
//! None to build the crate. To run it: NVIDIA's driver for CUDA 12.0 or later, and a GPU of compute
//! capability 7.0 or later. No toolkit is needed, since the driver compiles PTX. The system's loader finds
//! the driver's library as `libcuda.so` or `libcuda.so.1` (`nvcuda.dll` on Windows). With
//! [`Config::code_folder`] and a `ptxas`, machine code is cached on disk.
//!
//! # Errors
//!
//! | [`OpenError`] | Meaning | Remedy |
//! |---|---|---|
//! | `NoDriver` | no library of any of the listed names | install the driver, or set `LD_LIBRARY_PATH` |
//! | `NoSymbol` | a driver from before CUDA 12 | install a newer one |
//! | `NotStarted` | the driver does not start, with its own message | often the driver and its kernel module have two versions: restart |
//! | `NoDevice` | the driver sees no device | check `CUDA_VISIBLE_DEVICES`, and the devices given to a container |
//! | `NoSuchDevice` | an ordinal beyond the listed devices | choose one of them |
//! | `Unsupported` | a GPU from before compute capability 7.0 | use another backend |
//! | `OldDriver` | the driver does not accept the PTX version that the GPU's target needs | install a newer one |
//! | `Rejected` | the driver does not open the device, with its own message | another process may use it exclusively, or it is lost |
//!
//! Later, [`device_runtime::DriverError`] names the call and has the driver's own name, number and message
//! for the error:
//!
//! * `CodeRejected` has the kernel, the line of PTX, and the message of the driver's compiler. It is a bug of
//!   a codegen.
//! * `BadLaunch` has the clusters or tensor maps of a kernel's launch that the device or the text does not
//!   permit. It is a bug of a codegen, or the code is for another GPU.
//! * `TooLarge` and `TooManyGroups` have the kernel, the size that it needs, and the device's limit.
//! * `OutOfMemory`, and for the log of a kernel `NoRoomForLog`, are returned after a wait for all freed
//!   memory. They leave nothing allocated.
//! * `Failed` is a task that the driver rejected. Its stream works again after a reset.
//! * `Lost`: a kernel did something fatal, such as accessing an invalid address, or the GPU failed. NVIDIA's
//!   driver reports this some time later and for everything on the device. The message has the stream that
//!   saw the error first and the kernels that were pending on it. All unfinished tasks fail with this error,
//!   on every stream. Drop everything that was made for the device and open it again; if the driver rejects
//!   that, a new process is needed.
//!
//! # Promises
//!
//! * Nothing panics without a driver, or with a bad one.
//! * Copies between host and device go through pinned memory, up to 16 MiB per stream at a time; a copy
//!   beyond that waits for earlier tasks of its stream. A host array is read before the call that submits the
//!   copy returns. The destination array of a copy is filled when a thread observes that the copy is done.
//! * A routine of several kernels, none of which logs, is one task from its second run on: a CUDA graph. If
//!   it fails, it leaves the same state as if its kernels had been launched one by one.
//! * A run of a kernel that logs is done when its log has been reported. Logs of a stream are reported in the
//!   order of the runs, and no lock is held meanwhile. A log that has not been copied when the device is lost
//!   is lost with it.
//! * Memory is released when the last task that uses it is done, without waiting for the device;
//!   [`device_runtime::Driver::used_memory`] returns to zero. The device executes waits between streams, also
//!   between streams of several devices.
#![deny(unsafe_code)]

mod device; // the driver

// Opening.
mod caps; // capabilities of a device
mod open; // finding and opening devices

// Work.
mod event; // points in a stream
mod kernel; // text to functions bound to memory
mod maps; // tensor maps of kernels
mod sequence; // kernels launched together, repeatedly
mod shared_state; // state that all streams share
mod stream; // tasks in order

// Code.
mod cubin; // machine code cached on disk
mod ptx; // facts about a PTX text

mod api; // NVIDIA's driver as a safe interface

pub use crate::{
    device::CudaDevice,
    open::{Config, DeviceInfo, OpenError, devices},
};

tnode::debug_as_display!(OpenError);
