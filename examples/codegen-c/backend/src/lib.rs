//! The backend `c`: kernels in C on the cores of this machine. A program that links this crate opens it by
//! its name.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrayjit::{BackendParts, Device, OpenResult, Settings};
use scheduler_multicore::{Cpu, CpuConfig};

arrayjit::register_backend!("c", "C, compiled by the system's compiler", open);

/// Opens a device with as many threads as the settings say.
fn open(settings: &Settings) -> OpenResult {
    let default = CpuConfig::default();
    let threads = if settings.threads == 0 { default.threads } else { settings.threads };
    let device = Device::new(Arc::new(Cpu::multicore(CpuConfig { threads, ..default })), 0);
    Ok(BackendParts::new(Arc::new(codegen_c::codegen()), device))
}
