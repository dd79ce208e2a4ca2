//! Tensor maps: checks their descriptions, and encodes them as 128 bytes that a launch recognizes.

use std::ffi::{c_uint, c_void};

use crate::{
    Answer, answer, current, get, put,
    world::{INVALID_VALUE, log, number, setting},
};

/// Size of an encoded map, in bytes.
pub(crate) const BYTES: usize = 128;

/// The last word of an encoded map, by which it is recognized.
const SIGN: u64 = 0x0070_a57e_40a7;

/// Element sizes in bytes, by type.
const ELEMENTS: [u64; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];

/// Maximum line sizes in bytes, by swizzle.
const LINES: [u64; 4] = [u64::MAX, 32, 64, 128];

/// Whether these words begin with a map.
pub(crate) fn is_map(words: &[u64]) -> bool {
    words.get(BYTES / 8 - 1) == Some(&SIGN)
}

/// An array of the caller.
fn list<T: Copy>(numbers: *const T, count: usize) -> Vec<T> {
    // SAFETY: the caller passes this many numbers, as the driver requires.
    (0..count).map(|at| get(unsafe { numbers.add(at) })).collect()
}

#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeTiled(
    map: *mut [u64; BYTES / 8],
    element: c_uint,
    axes: u32,
    address: *const c_void,
    sizes: *const u64,
    strides: *const u64,
    tile: *const u32,
    steps: *const u32,
    interleave: c_uint,
    swizzle: c_uint,
    promotion: c_uint,
    outside: c_uint,
) -> Answer {
    let encode = || {
        current()?;
        let axes = axes as usize;
        let (Some(bytes), Some(most)) = (ELEMENTS.get(element as usize), LINES.get(swizzle as usize)) else {
            return Err(INVALID_VALUE);
        };
        if number("capability", 90) < 90 || !(1..=5).contains(&axes) || !map.addr().is_multiple_of(64) {
            return Err(INVALID_VALUE);
        }
        let (sizes, strides) = (list(sizes, axes), list(strides, axes - 1));
        let (tile, steps) = (list(tile, axes), list(steps, axes));
        let line = u64::from(tile[0]) * bytes;
        let fits = address.addr().is_multiple_of(16)
            && sizes.iter().all(|size| (1..=1 << 32).contains(size))
            && strides.iter().all(|stride| stride % 16 == 0 && *stride < 1 << 40)
            && tile.iter().all(|size| (1..=256).contains(size))
            && steps.iter().all(|step| (1..=8).contains(step))
            && line % 16 == 0
            && line <= *most
            && (interleave, outside) == (0, 0)
            && promotion <= 3;
        if !fits || setting("maps").as_deref() == Some("rejected") {
            return Err(INVALID_VALUE);
        }
        log(&format!("map {element} {sizes:?} {strides:?} {tile:?} {steps:?} {swizzle} {promotion}"));
        let mut words = [0; BYTES / 8];
        (words[0], words[BYTES / 8 - 1]) = (address.addr() as u64, SIGN);
        put(map, words)
    };
    answer(encode())
}
