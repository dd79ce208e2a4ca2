//! Running out of host memory is an error that names the size, and smaller requests succeed afterwards.
//!
//! The body runs in a child process with a limited address space, since running out of memory affects a whole
//! process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{env, process::Command};

use crate::support::{context, device};
use device_runtime::{Context, Device, DriverError, Host, RunError};
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{DType, HostArray, TensorNode};

const CHILD: &str = "ARRAYJIT_TEST_OUT_OF_MEMORY";
const ARRAY_BYTES: usize = 64 << 20;
const LIMIT_KIB: usize = 768 << 10;

fn large(name: &str) -> TensorNode {
    TensorNode::builder(name).dims([ARRAY_BYTES]).dtype(DType::U8).build().unwrap()
}

fn is_out_of_memory(error: &RunError) -> bool {
    match error {
        RunError::Node(error) => {
            matches!(**error, tnode::TensorNodeError::OutOfMemory { bytes: ARRAY_BYTES })
        }
        RunError::Driver { source: DriverError::OutOfMemory { requested: ARRAY_BYTES, .. }, .. } => true,
        _ => false,
    }
}

/// Calls `take` until memory runs out, and keeps all results until then.
fn until_out_of_memory<T>(device: &Device, mut take: impl FnMut() -> Result<T, RunError>) {
    let mut taken = Vec::new();
    let error = loop {
        match take() {
            Ok(more) => taken.push(more),
            Err(error) => break error,
        }
        assert!(taken.len() < LIMIT_KIB * 1024 / ARRAY_BYTES, "the address space is limited");
    };
    assert!(is_out_of_memory(&error), "{error}");
    drop(taken);
    // Pending copies keep arrays and memory alive.
    device.sync().unwrap();
}

fn exhaust() {
    let device = device(Cpu::multicore(CpuConfig::default()));
    let empty: Context = context(&device);
    let array = HostArray::zeros(DType::U8, [ARRAY_BYTES]).unwrap();
    let shared = std::sync::Arc::new(HostArray::zeros(DType::U8, [ARRAY_BYTES]).unwrap());
    let x = large("x");
    for _ in 0..2 {
        until_out_of_memory(&device, || empty.init_from_host(&x, &array));
        until_out_of_memory(&device, || empty.init_from_host(&x, std::sync::Arc::clone(&shared)));
        let present = empty.init_from_host(&x, std::sync::Arc::clone(&shared)).unwrap();
        until_out_of_memory(&device, || present.to_host(&x));
        until_out_of_memory(&device, || Ok(array.try_clone()?));
        present.from_host(&x, &array).unwrap().sync().unwrap();
        // Updating a shared array copies it.
        let host = Host::default();
        host.insert(&x, array.try_clone().unwrap()).unwrap();
        until_out_of_memory(&device, || {
            let held = host.get(&x)?;
            host.update(&x, |array| array.set(&[0], tnode::Scalar::from_i64(DType::U8, 1)))?;
            Ok(held)
        });
        host.set_value(&x, &[1], 1.0).unwrap();
    }
    assert_eq!(device.memory().live_bytes, 0);
}

#[test]
fn running_out_of_memory_is_an_error() {
    if env::var_os(CHILD).is_some() {
        return exhaust();
    }
    let this = env::current_exe().unwrap();
    let limited = format!(
        "ulimit -v {LIMIT_KIB} && exec \"$0\" --exact out_of_memory::running_out_of_memory_is_an_error --nocapture"
    );
    let child = Command::new("sh").args(["-c", &limited]).arg(this).env(CHILD, "1").output().unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr);
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && stdout.contains("1 passed"), "{}: {stderr}", child.status);
}
