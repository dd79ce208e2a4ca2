//! A program with entries of objects: it runs those that it reads, on arrays that it reads, and writes the
//! arrays. Words are numbers of 64 bits. A run is the position of the entry, the bytes of the arena, the
//! number of arrays, the bytes and the contents of each array, the number of bindings and the bindings; its
//! result is the status and the contents of all arrays.

use std::io::{Read, Write, stdin, stdout};

use arrayjit_rt::Entry;

/// As many bytes as a cache line has, and aligned as such.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

include!("entries.rs");

fn word() -> Option<u64> {
    let mut bytes = [0; 8];
    stdin().read_exact(&mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
}

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0xa5; 64]); bytes / 64 + 1]
}

fn bytes_of(lines: &mut [Line], bytes: usize) -> &mut [u8] {
    // SAFETY: a line consists of 64 bytes, without padding.
    let all = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), 64 * lines.len()) };
    &mut all[..bytes]
}

fn main() {
    while let Some(entry) = word() {
        let next = || word().expect("a word");
        let mut arena = lines(next() as usize);
        let mut arrays = Vec::new();
        for _ in 0..next() {
            let bytes = next() as usize;
            let mut array = lines(bytes);
            stdin().read_exact(bytes_of(&mut array, bytes)).expect("the contents of an array");
            arrays.push((array, bytes));
        }
        let bindings: Vec<i64> = (0..next()).map(|_| next().cast_signed()).collect();
        let args: Vec<*mut u8> = arrays.iter_mut().map(|(array, _)| array.as_mut_ptr().cast()).collect();
        // SAFETY: the arrays and the arena have the sizes of the entry.
        let status = unsafe {
            ENTRIES[entry as usize](
                args.as_ptr(),
                bindings.as_ptr(),
                arena.as_mut_ptr().cast(),
                std::ptr::null(),
            )
        };
        stdout().write_all(&status.to_le_bytes()).expect("an open pipe");
        for (array, bytes) in &mut arrays {
            stdout().write_all(bytes_of(array, *bytes)).expect("an open pipe");
        }
    }
}
