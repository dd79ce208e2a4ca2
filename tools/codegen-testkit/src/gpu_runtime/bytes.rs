//! Copies of bytes, by the driver itself.
#![allow(unsafe_code, reason = "each scenario hands its tasks to one stream")]

use std::sync::Arc;

use device_runtime::{DirectDriver, Driver, DriverError, HostReadback, Location, PoolId, StreamHandle};
use fastrand::Rng;
use tnode::{DType, HostArray};

use super::Gpu;
use super::hand_made::at;

/// A stream for tasks of a test.
fn stream<D: Driver + ?Sized>(driver: &DirectDriver<D>) -> StreamHandle {
    driver.new_stream("test").unwrap()
}

/// Bytes on the host.
pub fn bytes(values: &[u8]) -> Arc<HostArray> {
    Arc::new(HostArray::from_slice(values, [values.len()]).unwrap())
}

/// A buffer for bytes on the host.
pub fn readback(len: usize) -> HostReadback {
    HostReadback::new(HostArray::zeros(DType::U8, [len]).unwrap())
}

/// Copies bytes to a device. The tasks of a test must be on one stream, or ordered by waits.
pub fn copy_in<D: Driver + ?Sized>(
    driver: &DirectDriver<D>,
    stream: &StreamHandle,
    to: Location,
    values: &[u8],
) {
    // SAFETY: the caller's tasks are ordered, as said above.
    unsafe { driver.copy_in(stream, to, &bytes(values)).unwrap() };
}

/// The bytes of a device after all tasks of the stream. The tasks of a test must be on one stream, or ordered
/// by waits.
pub fn copy_out<D: Driver + ?Sized>(
    driver: &DirectDriver<D>,
    stream: &StreamHandle,
    from: Location,
    len: usize,
) -> Vec<u8> {
    let readback = readback(len);
    // SAFETY: the caller's tasks are ordered, as said above.
    unsafe { driver.copy_out(stream, from, &readback).unwrap() };
    driver.sync(&driver.record(stream).unwrap()).unwrap();
    readback.take().unwrap().bytes().to_vec()
}

/// Copies any number of bytes between any offsets: in, out, within memory and between memories.
pub fn any_bytes_go_anywhere(gpu: &dyn Gpu) {
    const BYTES: usize = 64;
    let Some((driver, _)) = gpu.open(None) else { return };
    let driver = &DirectDriver::new(driver);
    let stream = stream(driver);
    (1..=2).for_each(|pool| driver.alloc_pool(PoolId(pool), BYTES).unwrap());
    let mut model = [(1..=64).collect::<Vec<u8>>(), (101..=164).collect()];
    copy_in(driver, &stream, at(1, 0), &model[0]);
    copy_in(driver, &stream, at(2, 0), &model[1]);
    let mut random = Rng::with_seed(7);
    for _ in 0..200 {
        let [pool, other] = [(); 2].map(|()| random.usize(..2));
        let len = random.usize(..12);
        let [to, from] = [(); 2].map(|()| random.usize(..BYTES - len));
        let (dst, src) = (at(pool as u32 + 1, to), at(other as u32 + 1, from));
        match random.usize(..4) {
            0 => {
                let values: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
                copy_in(driver, &stream, dst, &values);
                model[pool][to..to + len].copy_from_slice(&values);
            }
            1 => {
                // SAFETY: all tasks are on one stream.
                unsafe { driver.memset_zero(&stream, dst, len).unwrap() };
                model[pool][to..to + len].fill(0);
            }
            2 => assert_eq!(copy_out(driver, &stream, dst, len), model[pool][to..to + len]),
            _ => {
                // SAFETY: all tasks are on one stream.
                let copied = unsafe { driver.copy(&stream, dst, src, len) };
                let overlaps = pool == other && len > 0 && to < from + len && from < to + len;
                match copied {
                    Ok(()) => assert!(!overlaps),
                    Err(DriverError::CopyOverlap { .. }) => assert!(overlaps),
                    Err(error) => panic!("{error}"),
                }
                if !overlaps {
                    let values = model[other][from..from + len].to_vec();
                    model[pool][to..to + len].copy_from_slice(&values);
                }
            }
        }
    }
    assert_eq!(copy_out(driver, &stream, at(1, 0), BYTES), model[0]);
    assert_eq!(copy_out(driver, &stream, at(2, 0), BYTES), model[1]);
}
