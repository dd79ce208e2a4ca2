#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod device;

// Opening.
mod caps;
mod choice;
mod open;

// Running kernels and copies.
mod event;
mod kernel; // text to functions bound to memory
mod maps;
mod sequence;
mod shared_state;
mod stream; // tasks in order

mod nccl;

// Code.
mod cubin;
mod ptx;

mod api;

pub use crate::{
    choice::DeviceChoice,
    device::CudaDevice,
    nccl::{NcclCommunicator, NcclError, NcclOperation, NcclReduction, NcclUniqueId},
    open::{CudaConfig, CudaOpenError, DeviceInfo, devices},
};

tnode::debug_as_display!(NcclError, CudaOpenError);

/// The result of a task or of a part of it.
type Result<T, E = device_runtime::DriverError> = std::result::Result<T, E>;
