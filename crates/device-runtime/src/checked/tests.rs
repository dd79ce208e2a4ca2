//! Each check once: the constructor rejects arguments that violate the type's proof.
#![allow(unsafe_code, reason = "hands tasks to a driver that runs nothing")]

use std::sync::Arc;

use codegen_core::{Access, Artifact, Cost, KernelAbi, Launch, Param};
use tnode::{DType, HostArray};

use super::*;
use crate::{
    direct::DirectDriver,
    driver::{Driver, Location, PoolId, StreamHandle},
    error::{DriverError, Result},
    null::NullDevice,
};

/// A driver with pool 1 of 256 bytes, pool 2 from a host array of 128 bytes, and a stream.
fn device() -> (DirectDriver<NullDevice>, StreamHandle) {
    let driver = DirectDriver::new(Arc::new(NullDevice::new()));
    driver.alloc_pool(PoolId(1), 256).unwrap();
    driver.import(PoolId(2), &SharedMemory::of_host(array(128))).unwrap();
    let stream = driver.new_stream("by hand").unwrap();
    (driver, stream)
}

fn array(bytes: usize) -> Arc<HostArray> {
    Arc::new(HostArray::zeros(DType::U8, [bytes]).unwrap())
}

fn at(pool: u32, offset: usize) -> Location {
    Location { pool: PoolId(pool), offset }
}

fn kernel(driver: &DirectDriver<NullDevice>, name: &str, params: &[Param]) -> LoadedKernel {
    let abi = KernelAbi {
        name: name.to_owned(),
        params: params.to_vec(),
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    let module = driver.load(&Artifact::other(Arc::new(()), vec![abi])).unwrap();
    module.kernel(0).unwrap()
}

fn node(access: Access, bytes: usize) -> Param {
    Param::Node { access, bytes }
}

fn text<T: std::fmt::Debug>(rejected: Result<T>) -> String {
    rejected.unwrap_err().to_string()
}

#[test]
fn ranges_lie_in_their_memory() {
    let (driver, _) = device();
    assert_eq!(driver.range(at(1, 200), 56).unwrap().to_string(), "56 bytes at pool 1 offset 200");
    assert_eq!(text(driver.range(at(1, 200), 57)), "pool 1: bytes 200..+57 lie outside its 256 bytes");
    assert!(matches!(driver.range(at(1, usize::MAX), 2), Err(DriverError::OutOfBounds { .. })));
    assert_eq!(driver.range(at(3, 0), 0).unwrap_err(), DriverError::NoSuchPool { pool: PoolId(3) });
    let range = driver.range(at(1, 64), 8).unwrap();
    assert_eq!(range.first(8).unwrap().bytes(), 8);
    assert_eq!(text(range.first(9)), "8 bytes at pool 1 offset 64: bytes 0..+9 lie outside its 8 bytes");
    assert_eq!(range.up_to(9).bytes(), 8);
}

#[test]
fn a_range_keeps_its_memory() {
    let (driver, _) = device();
    let range = driver.range(at(1, 0), 4).unwrap();
    driver.free_pool(PoolId(1));
    assert_eq!(driver.used_memory(), 256);
    driver.alloc_pool(PoolId(1), 4).unwrap();
    assert!(!range.overlaps(&driver.range(at(1, 0), 4).unwrap()), "another pool with its number");
    drop(range);
    assert_eq!(driver.used_memory(), 4);
}

#[test]
fn kernels_get_the_memory_that_their_artifact_asks_for() {
    let (driver, _) = device();
    let copy = kernel(&driver, "copy", &[node(Access::Read, 64), node(Access::Write, 60)]);
    let rejected = |places: &[Location]| driver.bind(&copy, places).unwrap_err();
    let few = rejected(&[at(1, 0)]).to_string();
    assert_eq!(few, "kernel `copy`: expected 2 memory parameters, found 1");
    assert!(matches!(rejected(&[at(1, 0); 3]), DriverError::Arity { expected: 2, found: 3, .. }));
    assert_eq!(rejected(&[at(1, 0), at(3, 0)]), DriverError::NoSuchPool { pool: PoolId(3) });
    let misaligned = rejected(&[at(1, 0), at(1, 96)]).to_string();
    let expected = "memory parameter 1 is at pool 1 offset 96, which is no multiple of 64 bytes";
    assert_eq!(misaligned, format!("kernel `copy`: {expected}"));
    assert_eq!(rejected(&[at(1, 0), at(2, 0)]), DriverError::ReadOnly { pool: PoolId(2) });
    driver.bind(&copy, &[at(2, 64), at(1, 0)]).unwrap();
    // The runtime binds the memory of a node, which may be larger or smaller than the parameter.
    let [short, exact] = [59, 60].map(|bytes| driver.range(at(1, 128), bytes).unwrap());
    let source = driver.range(at(1, 0), 128).unwrap();
    let error = text(copy.bind(&**driver.driver(), &[source.clone(), short]));
    let expected =
        "memory parameter 1 of kernel `copy` at pool 1 offset 128: bytes 0..+60 lie outside its 59 bytes";
    assert_eq!(error, expected);
    copy.bind(&**driver.driver(), &[source.clone(), exact.clone()]).unwrap();
    let args = KernelArgs::new(&copy, 64, &[source, exact]).unwrap();
    assert_eq!(args.ranges().iter().map(MemoryRange::bytes).collect::<Vec<_>>(), [64, 60]);
}

#[test]
fn written_memory_is_no_other_parameters() {
    let (driver, _) = device();
    let bind = |accesses: &[Access], places: &[Location]| {
        let params: Vec<_> = accesses.iter().map(|&access| node(access, 65)).collect();
        let merge = [Param::MergeBuffer { bytes: 1 }];
        let kernel = kernel(&driver, "k", &[&params[..], &merge[..]].concat());
        match driver.bind(&kernel, places) {
            Err(DriverError::Overlap { first, second, .. }) => Some((first, second)),
            bound => bound.map(|_| None).unwrap(),
        }
    };
    use Access::{Read, ReadWrite, Write, WritePart};
    let [a, b, c] = [0, 64, 128].map(|offset| at(1, offset));
    assert_eq!(bind(&[Read, Read], &[a, b, b]), None, "reads may overlap, of the merge buffer too");
    for access in [Write, WritePart, ReadWrite] {
        assert_eq!(bind(&[Read, access], &[a, b, c]), Some((0, 1)), "by one byte");
        assert_eq!(bind(&[access, Read], &[c, a, b]), None);
        assert_eq!(bind(&[access], &[a, b]), Some((0, 1)), "of the merge buffer");
    }
    assert_eq!(bind(&[Write, Write], &[a, c, c]), Some((1, 2)));
}

#[test]
fn launches_have_bindings_within_their_ranges() {
    let (driver, stream) = device();
    let indices = |name, ranges: &[i64]| {
        let params: Vec<_> = ranges.iter().map(|&range| Param::StaticIndex { range }).collect();
        driver.bind(&kernel(&driver, name, &params), &[]).unwrap()
    };
    let [first, second] = [indices("first", &[8]), indices("second", &[2, 5])];
    // SAFETY: the device runs nothing.
    let launch = |bindings: &[i64]| unsafe { driver.launch(&stream, &second, bindings) };
    assert_eq!(launch(&[1, 4]), Ok(()));
    assert_eq!(text(launch(&[1])), "kernel `second`: expected 2 bindings, found 1");
    assert_eq!(text(launch(&[1, 5])), "kernel `second`: a static index of 5 lies outside 0..5");
    assert_eq!(text(launch(&[-1, 0])), "kernel `second`: a static index of -1 lies outside 0..2");

    let sequence = driver.sequence(&[first, second]).unwrap().unwrap();
    // SAFETY: as above.
    let launch = |bindings: &[i64]| unsafe { driver.launch_sequence(&stream, &sequence, bindings) };
    assert_eq!(launch(&[7, 1, 4]), Ok(true));
    let few = "kernel `first`: expected 3 bindings for it and those behind it, found 2";
    assert_eq!(text(launch(&[7, 1])), few);
    assert_eq!(text(launch(&[1, 7, 4])), "kernel `second`: a static index of 7 lies outside 0..2");
    // SAFETY: as above.
    let task = unsafe { SequenceTask::new(&sequence, &[7, 1, 4]).unwrap() };
    let launches: Vec<_> = task.into_launches().map(|task| (task.name(), task.bindings())).collect();
    assert_eq!(launches, [("first", &[7][..]), ("second", &[1, 4])]);
    assert!(driver.sequence(&[]).unwrap().is_none(), "of nothing");
}

#[test]
fn copies_fit_their_memory_and_write_none_that_is_only_read() {
    let (driver, stream) = device();
    let [readback, large] = [4, 257].map(|bytes| HostReadback::new((*array(bytes)).clone()));
    // SAFETY: the device runs nothing.
    let (accepted, outside, read_only) = unsafe {
        (
            [
                driver.memset_zero(&stream, at(1, 3), 253),
                driver.copy_in(&stream, at(1, 252), &array(4)),
                driver.copy_out(&stream, at(2, 124), &readback),
                driver.copy(&stream, at(1, 0), at(2, 0), 128),
                driver.copy(&stream, at(1, 0), at(1, 8), 8),
                driver.copy(&stream, at(1, 8), at(1, 8), 0),
            ],
            [
                driver.memset_zero(&stream, at(1, 3), 254),
                driver.copy_in(&stream, at(1, 253), &array(4)),
                driver.copy_out(&stream, at(1, 0), &large),
                driver.copy(&stream, at(1, 0), at(2, 0), 129),
                driver.copy(&stream, at(1, 250), at(2, 0), 7),
            ],
            [
                driver.memset_zero(&stream, at(2, 0), 1),
                driver.copy_in(&stream, at(2, 0), &array(4)),
                driver.copy(&stream, at(2, 0), at(1, 0), 4),
            ],
        )
    };
    assert!(accepted.iter().all(Result::is_ok), "{accepted:?}");
    outside.iter().for_each(|it| assert!(matches!(it, Err(DriverError::OutOfBounds { .. })), "{it:?}"));
    let expected = DriverError::ReadOnly { pool: PoolId(2) };
    read_only.iter().for_each(|it| assert_eq!(it.as_ref(), Err(&expected)));
    // SAFETY: the device runs nothing.
    let overlap = unsafe { driver.copy(&stream, at(1, 4), at(1, 8), 5) };
    assert_eq!(text(overlap), "a copy of 5 bytes from pool 1 offset 8 to pool 1 offset 4 overlaps itself");
}

#[test]
fn copies_have_ends_of_one_size() {
    let (driver, _) = device();
    let range = |bytes| driver.range(at(1, 0), bytes).unwrap();
    let readback = HostReadback::new((*array(4)).clone());
    // SAFETY: none of them is submitted to a stream.
    unsafe {
        for bytes in [3, 5] {
            let said = format!("a copy between {bytes} bytes at pool 1 offset 0 and a host array of 4 bytes");
            assert_eq!(text(CopyInTask::new(range(bytes), array(4))), said);
            assert_eq!(text(CopyOutTask::new(range(bytes), readback.clone())), said);
        }
        let said = "a copy to 3 bytes at pool 1 offset 0 from 4 bytes at pool 1 offset 64";
        assert_eq!(text(CopyTask::new(range(3), driver.range(at(1, 64), 4).unwrap())), said);
        let part = CopyInTask::new(range(4), array(4)).unwrap().up_to(3);
        assert_eq!((part.src().len(), part.dst().bytes()), (3, 3));
    }
}

#[test]
fn a_read_back_array_is_taken_once() {
    let readback = HostReadback::new((*array(4)).clone());
    readback.fill(1, 2, |bytes| bytes.copy_from_slice(&[5, 6]));
    readback.fill(3, 2, |_| panic!("it has no such bytes"));
    readback.fill(3, usize::MAX, |_| panic!("it has no such bytes"));
    assert_eq!(readback.take().unwrap().bytes(), [0, 5, 6, 0]);
    readback.fill(0, 1, |_| panic!("it is not there any more"));
    assert!(readback.take().is_none());
}
