//! On a machine without adapters, opening a device fails, and the error lists the interfaces. This test is a
//! program of its own, because a process reads the environment when it opens a device.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::Command;

use device_wgpu::{Config, OpenError, WgpuDevice, adapters};

/// Set in the child process, which sees no driver.
const CHILD: &str = "DEVICE_WGPU_TEST_WITHOUT_DRIVERS";

#[test]
fn opening_without_an_adapter_is_an_error() {
    if std::env::var_os(CHILD).is_some() {
        return without_adapters();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "opening_without_an_adapter_is_an_error", "--nocapture"])
        .env(CHILD, "1")
        .env("VK_DRIVER_FILES", "/nonexistent")
        .env("VK_ICD_FILENAMES", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn without_adapters() {
    // Interfaces other than Vulkan have drivers that the environment does not hide.
    let found = adapters();
    if !found.is_empty() {
        assert!(found.iter().all(|info| info.backend != "vulkan"), "{found:?}");
        return;
    }
    let error = WgpuDevice::open(&Config::default()).unwrap_err();
    assert!(matches!(&error, OpenError::NoAdapter { found, .. } if found.is_empty()), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("found no GPU adapter for any adapter (looked for "), "{text}");
    assert!(
        text.contains("vulkan") && text.ends_with("there is none; a driver or a device is missing"),
        "{text}"
    );
}
