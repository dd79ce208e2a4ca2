//! The tests of the driver as one program, since each program costs a link. Tests that lose a device are
//! another program, because on a real GPU a device is lost for the whole process.
#![cfg(target_os = "linux")]

mod code;
mod driver;
mod logging;
mod maps;
mod nccl;
mod open;
mod peers;
mod sequence;
mod suite;
mod support;
