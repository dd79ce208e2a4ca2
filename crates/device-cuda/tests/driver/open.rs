//! Finding devices, and the error messages if there is none.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::*;
use device_cuda::{CudaConfig, CudaDevice, CudaOpenError, DeviceChoice, devices};
use device_runtime::{Driver, DriverError, StreamStrategy};
use tnode::DType;

fn error(ordinal: u32) -> CudaOpenError {
    CudaDevice::open(&CudaConfig { ordinal, ..CudaConfig::default() }).unwrap_err()
}

#[test]
fn without_a_driver_the_name_looked_for_is_said() {
    on_library(Path::new("/nonexistent"), "", || {
        let listed = devices().unwrap_err();
        let error = error(0);
        assert_eq!(error, listed);
        let text = error.to_string();
        assert!(text.starts_with("found no NVIDIA driver (looked for libcuda.so.1 and "), "{text}");
        assert!(text.ends_with("set LD_LIBRARY_PATH to where it is"), "{text}");
    });
}

/// A library of the system that is not a driver.
fn other_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let found =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
    PathBuf::from(found.unwrap())
}

#[test]
fn a_library_that_lacks_functions_is_an_old_driver() {
    on_library(&other_library(), "", || {
        assert_eq!(
            error(0).to_string(),
            "the NVIDIA driver is too old: it has no function `cuInit`; install one for CUDA 12.0 or later"
        );
    });
}

#[test]
fn a_driver_without_devices() {
    on_fake("init=100", || {
        let text = "the NVIDIA driver has no device: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected";
        assert_eq!(
            (error(0).to_string(), devices().unwrap_err().to_string()),
            (text.to_owned(), text.to_owned())
        );
    });
}

#[test]
fn a_driver_that_counts_none() {
    on_fake("devices=0", || assert_eq!(error(0).to_string(), "the NVIDIA driver has no device"));
}

#[test]
fn a_driver_that_does_not_start() {
    on_fake("init=803", || {
        assert_eq!(
            error(0).to_string(),
            "the NVIDIA driver does not start: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported display driver / cuda driver combination"
        );
    });
}

/// Error codes that no table contains, as newer drivers return them.
#[test]
fn an_error_without_a_name() {
    on_fake("init=977", || {
        let text = "the NVIDIA driver does not start: cuInit: an error without a name (977): no description";
        assert_eq!(error(0).to_string(), text);
    });
}

#[test]
fn an_ordinal_beyond_the_devices_lists_them() {
    on_fake("devices=2 memory=1048576", || {
        let error = error(2);
        assert!(
            matches!(&error, CudaOpenError::NoSuchDevice { wanted: DeviceChoice::Ordinal(2), found } if *found == devices().unwrap())
        );
        assert_eq!(
            error.to_string(),
            "there is no CUDA device 2; there are 2: 0: Fake 0 (compute capability 9.0, 1 MiB); 1: Fake 1 (compute capability 9.0, 1 MiB)"
        );
        let second = CudaDevice::open(&CudaConfig { ordinal: 1, ..CudaConfig::default() }).unwrap();
        assert_eq!(*second.info(), devices().unwrap()[1]);
    });
}

#[test]
fn a_device_is_found_by_position_or_part_of_its_name() {
    on_fake("devices=2 memory=1048576", || {
        let chosen = |text: &str| text.parse::<DeviceChoice>().unwrap().ordinal();
        let found = ["", "0", " 1 ", "fake", "FAKE 1"].map(chosen);
        assert_eq!(found, [Ok(0), Ok(0), Ok(1), Ok(0), Ok(1)]);
        let error = chosen("H200").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no CUDA device with `H200` in its name; there are 2: 0: Fake 0 (compute capability 9.0, 1 MiB); 1: Fake 1 (compute capability 9.0, 1 MiB)"
        );
    });
}

#[test]
fn a_processor_that_is_too_old() {
    on_fake("capability=61", || {
        assert_eq!(
            error(0).to_string(),
            "CUDA device 0: Fake 0 (compute capability 6.1, 1024 MiB) is too old: compute capability 7.0 is needed"
        );
    });
}

#[test]
fn a_driver_that_is_too_old_for_the_processor() {
    on_fake("version=11080", || {
        assert_eq!(
            error(0).to_string(),
            "the NVIDIA driver (CUDA 11.8) takes PTX 7.8, and code for sm_90a, for CUDA device 0: Fake 0 (compute capability 9.0, 1024 MiB), is PTX 8.0; install a newer driver"
        );
    });
}

#[test]
fn capabilities_and_facts_are_the_devices() {
    let notes = on_fake("capability=86 version=13010", || {
        let driver = open(&CudaConfig::default());
        let caps = driver.caps();
        assert_eq!((caps.target.as_str(), caps.alignment, caps.l2_bytes), ("sm_80", 256, 50 << 20));
        let groups = caps.workgroups.unwrap();
        assert_eq!((groups.threads, groups.memory_bytes), (1024, 48 << 10));
        assert!(caps.arithmetic.contains(DType::Bf16) && !caps.arithmetic.contains(DType::U8));
        let facts = properties(&driver);
        let expected = [
            ("device", "Fake 0"),
            ("compute_capability", "8.6"),
            ("cuda", "13.1"),
            ("ptx", "9.1"),
            ("multiprocessors", "132"),
            ("shared_bytes_per_block", "232448"),
            ("memory_pools", "true"),
            ("keeps_machine_code", "false"),
        ];
        assert!(expected.iter().all(|(name, value)| facts[name] == *value), "{facts:?}");
        assert_eq!((driver.name(), driver.language()), ("cuda", (9, 1)));
        use StreamStrategy::{ForParallelCopying, MostParallelStreams, OnlyDevicesParallel};
        let strategies = [OnlyDevicesParallel, ForParallelCopying, MostParallelStreams];
        let suggested = strategies.map(|strategy| driver.suggested_num_streams(strategy));
        assert_eq!(suggested, [1, 3, 8]);
    });
    let Some(notes) = notes else { return };
    // The pool keeps freed memory for later allocations, and the stream does not synchronize with the default
    // stream.
    assert_eq!((notes.count("pool attribute 4 268435456"), notes.count("stream 1")), (1, 1));
}

#[test]
fn several_devices_of_one_processor() {
    on_fake("devices=2", || {
        let (first, second) =
            (open(&CudaConfig::default()), open(&CudaConfig { ordinal: 1, ..CudaConfig::default() }));
        let again = open(&CudaConfig::default());
        let stream = first.new_stream("cuda:0:0").unwrap();
        for other in [&second, &again] {
            assert_eq!(other.record(&stream).unwrap_err(), DriverError::ForeignHandle { what: "stream" });
        }
        drop(first);
        assert!(again.new_stream("cuda:0:1").is_ok(), "the context has another owner");
    });
}
