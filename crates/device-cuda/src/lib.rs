#![doc = include_str!("../README.md")]
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
