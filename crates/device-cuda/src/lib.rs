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
//! Building the crate requires nothing. Running it requires NVIDIA's driver for CUDA 12.0 or later, and a GPU
//! of compute capability 7.0 or later. No toolkit is needed, since the driver compiles PTX. The system's
//! loader finds the driver's library as `libcuda.so` or `libcuda.so.1` (`nvcuda.dll` on Windows). With
//! [`Config::code_folder`] and a `ptxas`, machine code is cached on disk.
//!
//! # Errors
//!
//! | [`OpenError`] | Meaning | Remedy |
//! |---|---|---|
//! | `NoDriver` | no library of any of the listed names | install the driver, or set `LD_LIBRARY_PATH` |
//! | `NoSymbol` | a driver from before CUDA 12 | install a newer one |
//! | `NotStarted` | the driver does not start; the error has the driver's message | restart the machine: often the library and the kernel module have different versions |
//! | `NoDevice` | the driver sees no device | check `CUDA_VISIBLE_DEVICES`, and the devices given to a container |
//! | `NoSuchDevice` | no device has the requested ordinal; the error lists the devices | choose one of them |
//! | `Unsupported` | a GPU from before compute capability 7.0 | use another backend |
//! | `OldDriver` | the driver does not accept the PTX version that the GPU's target needs | install a newer one |
//! | `Rejected` | the driver does not open the device; the error has the driver's message | another process may use the device exclusively, or the device is lost |
//!
//! After a device is opened, its errors are [`device_runtime::DriverError`]s. An error of NVIDIA's driver
//! names the failed call and has the driver's name, number and message for the error. The variants:
//!
//! * `CodeRejected`: the driver's compiler rejected a kernel. The error has the kernel, the line of PTX and
//!   the compiler's message. The cause is a bug of a codegen.
//! * `BadLaunch`: the device or the PTX text does not permit the cluster size or a tensor map of a launch.
//!   The cause is a bug of a codegen, or code for another GPU.
//! * `TooLarge` and `TooManyGroups`: a kernel exceeds a limit of the device. The error has the kernel, the
//!   size that it needs, and the limit.
//! * `OutOfMemory`, or `NoRoomForLog` for the log buffer of a kernel: memory does not suffice even after all
//!   pending tasks, which may keep freed memory alive, are done. The failed call allocates nothing.
//! * `Failed`: the driver rejected a task. The stream of the task accepts tasks again after a reset.
//! * `Lost`: a kernel did something fatal, such as accessing an invalid address, or the GPU failed. NVIDIA's
//!   driver reports the error late, and for all work on the device. The message names the stream that saw the
//!   error first and the kernels that were pending on it. All unfinished tasks of every stream fail with this
//!   error. Drop everything that was made for the device and open it again; if the driver rejects that, a new
//!   process is needed.
//!
//! # Promises
//!
//! * No call panics because the driver is missing or faulty.
//! * Copies between host and device go through pinned memory, up to 16 MiB per stream at a time; a copy
//!   beyond that waits for earlier tasks of its stream. The call that submits a copy to the device returns
//!   only after it has read the host array. The destination array of a copy is filled when a thread observes
//!   that the copy is done.
//! * From its second run on, a routine of several kernels is submitted as one task, a CUDA graph, unless a
//!   kernel logs. If the graph fails, the state is the same as if its kernels had been launched one by one.
//! * A run of a kernel that logs counts as done when its log has been reported. The logs of a stream are
//!   reported in the order of the runs, and the sink is called without a lock held. If the device is lost, so
//!   are the logs that have not been copied to the host.
//! * Memory is released when the last task that uses it is done, without waiting for the device;
//!   [`device_runtime::Driver::used_memory`] returns to zero. The devices themselves execute waits between
//!   streams, also between streams of different devices; the host does not block.
#![deny(unsafe_code)]

mod device; // the driver

// Opening.
mod caps; // capabilities of a device
mod choice; // a device by position or name
mod open; // finding and opening devices

// Running kernels and copies.
mod event; // points in a stream
mod kernel; // text to functions bound to memory
mod maps; // tensor maps of kernels
mod sequence; // kernels launched together, repeatedly
mod shared_state; // state that all streams share
mod stream; // tasks in order

mod nccl; // exchanges of values between devices

// Code.
mod cubin; // machine code cached on disk
mod ptx; // facts about a PTX text

mod api; // NVIDIA's driver as a safe interface

pub use crate::{
    choice::DeviceChoice,
    device::CudaDevice,
    nccl::{NcclCommunicator, NcclError, NcclOperation, NcclReduction, NcclUniqueId},
    open::{Config, DeviceInfo, OpenError, devices},
};

tnode::debug_as_display!(NcclError, OpenError);
