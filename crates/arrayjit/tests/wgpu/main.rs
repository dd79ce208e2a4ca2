//! `codegen-wgsl` and `device-wgpu` together, on the adapter of this machine.
//!
//! Without an adapter every test is skipped and prints a line; with `REQUIRE_GPU_TOOLS=1` it fails. `cargo
//! xtask gpu-tools` installs a software adapter. There is one device for the whole process: opening one takes
//! as long as many runs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

mod backend; // opening the backend, by itself
mod baseline; // operations, with the types that every device has
mod corpus; // every run of the corpus

#[path = "../gpu/accuracy.rs"]
mod accuracy; // operations, in units of the last place
#[path = "../gpu/digits.rs"]
mod digits; // training of the digits example
#[path = "../gpu/gradients.rs"]
mod gradients; // gradients of random programs
#[path = "../gpu/random.rs"]
mod random; // random routines

use std::sync::{Arc, OnceLock};

use arrayjit::{Backend, Settings};
use codegen_core::Codegen;
use codegen_testkit::gpu::or_skip;
use codegen_wgsl::{Wgsl, WgslOptions, wgsl};
use device_runtime::{Device, Driver};
use device_wgpu::{WgpuConfig, WgpuDevice, WgpuOpenError};

/// An adapter's device, and a codegen for it.
struct Gpu {
    device: Device,
    codegen: Wgsl,
}

/// The device that all tests share; `None` on a machine without one.
fn gpu(test: &str) -> Option<&'static Gpu> {
    static GPU: OnceLock<Result<Gpu, String>> = OnceLock::new();
    or_skip(test, GPU.get_or_init(open).as_ref())
}

/// The backend; `None` on a machine without an adapter.
fn backend(test: &str) -> Option<Backend> {
    or_skip(test, Backend::open_with("wgpu", &Settings::default()))
}

fn open() -> Result<Gpu, String> {
    let driver = match WgpuDevice::open(&WgpuConfig::default()) {
        Ok(driver) => driver,
        Err(error @ WgpuOpenError::NoAdapter { .. }) => return Err(error.to_string()),
        Err(error) => panic!("{error}"),
    };
    println!("running on {}", driver.adapter());
    let codegen = wgsl(driver.caps().clone(), WgslOptions::default());
    let cap = driver.pool_cap();
    Ok(Gpu { device: Device::with_pool_cap(Arc::new(driver), 0, cap), codegen })
}

impl Gpu {
    fn codegen(&self) -> &dyn Codegen {
        &self.codegen
    }
}
