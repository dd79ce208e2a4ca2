//! Streams, events, hazards and memory of a device with hand-written kernels, through the runtime.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support::*;
use codegen_testkit::gpu_runtime::Gpu;
use device_runtime::{Driver, DriverError};
use device_wgpu::WgpuConfig;

codegen_testkit::gpu_suite! { |scenario: fn(&dyn Gpu)| scenario(&Wgpu) }

#[test]
fn streams_of_another_device_are_rejected() {
    let Some(first) = shared() else { return };
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    let stream = driver.new_stream("wgpu:0:0").unwrap();
    assert_eq!(first.driver().record(&stream).unwrap_err(), DriverError::ForeignHandle { what: "stream" });
}
