//! On a machine without adapters, opening a device fails, and the error lists the interfaces. The test
//! has a process of its own, because a process reads the environment when it opens a device.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use codegen_testkit::{is_in_own_process, run_in_own_process};
use device_wgpu::{WgpuConfig, WgpuDevice, WgpuOpenError, adapters};

#[test]
fn opening_without_an_adapter_is_an_error() {
    const NAME: &str = "no_adapter::opening_without_an_adapter_is_an_error";
    if is_in_own_process(NAME) {
        return without_adapters();
    }
    run_in_own_process(NAME, |child| {
        child.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent");
    });
}

fn without_adapters() {
    // Interfaces other than Vulkan have drivers that the environment does not hide.
    let found = adapters();
    if !found.is_empty() {
        assert!(found.iter().all(|info| info.backend != "vulkan"), "{found:?}");
        return;
    }
    let error = WgpuDevice::open(&WgpuConfig::default()).unwrap_err();
    assert!(matches!(&error, WgpuOpenError::NoAdapter { found, .. } if found.is_empty()), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("found no GPU adapter for any adapter (looked for "), "{text}");
    assert!(
        text.contains("vulkan") && text.ends_with("there is none; a driver or a device is missing"),
        "{text}"
    );
}
