//! The backend `c`: kernels in C on the cores of this machine. A program that links this crate opens it by
//! its name.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrayjit::{BackendParts, Device, OpenResult, Settings};
use scheduler_multicore::{Config, Cpu};

arrayjit::register_backend!("c", "C, compiled by the system's compiler", open);

fn open(_: &Settings) -> OpenResult {
    let device = Device::new(Arc::new(Cpu::multicore(Config::default())), 0);
    Ok(BackendParts::new(Arc::new(codegen_c::codegen()), device))
}
