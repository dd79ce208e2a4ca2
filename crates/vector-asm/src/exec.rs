//! Code in memory: mapped writable, filled, then made executable and nothing else. All unsafe code of the crate stands here.
//!
//! What is relied on: `memmap2` maps whole pages of anonymous memory, and a mapping stays where it is until it is dropped. What cannot be
//! proved here is that callers pass what the program expects; [`ExecutableCode::function`] says what that is.
#![allow(unsafe_code, reason = "making code callable, and calling it, is what this module is for")]

use std::io;

use memmap2::{Mmap, MmapMut};

use crate::code::Code;

/// A compiled program: base addresses, bindings, scratch memory, and the range of [`crate::Range::Part`].
pub type Function =
    unsafe extern "C" fn(args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);

/// Where each function begins is a multiple of this.
const ALIGNMENT: usize = 64;

/// Compiled programs that can be called, in one mapping that lasts as long as this.
#[derive(Debug)]
pub struct ExecutableCode {
    map: Mmap,
    starts: Vec<usize>,
}

impl ExecutableCode {
    /// Maps one program.
    ///
    /// # Errors
    ///
    /// If the system gives no memory, or none that may be executed.
    pub fn load(code: &Code) -> io::Result<ExecutableCode> {
        ExecutableCode::load_all(&[code])
    }

    /// Maps several programs, one behind the other.
    ///
    /// # Errors
    ///
    /// As [`ExecutableCode::load`].
    pub fn load_all(codes: &[&Code]) -> io::Result<ExecutableCode> {
        let mut starts = Vec::with_capacity(codes.len());
        let mut length = 0;
        for code in codes {
            starts.push(length);
            length += code.bytes().len().next_multiple_of(ALIGNMENT);
        }
        let mut map = MmapMut::map_anon(length.max(1))?;
        for (code, &start) in codes.iter().zip(&starts) {
            map[start..start + code.bytes().len()].copy_from_slice(code.bytes());
        }
        Ok(ExecutableCode { map: map.make_exec()?, starts })
    }

    /// How many programs there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The function of the program at a position in what was loaded.
    ///
    /// Calling it is unsafe. It may be called while this object lives; on a processor that has the instructions of the code's
    /// [`crate::Isa`]; with base addresses aligned to 64 bytes and valid for all that the program reads and writes at them, all bindings that it mentions, scratch memory
    /// aligned and valid likewise, and such that places with different bases do not overlap where one of them is written.
    ///
    /// # Panics
    ///
    /// If there is no such program.
    pub fn function(&self, position: usize) -> Function {
        let start = self.map[self.starts[position]..].as_ptr();
        // SAFETY: the address is the first byte of what `compile` made for this signature, which lies in executable memory and is whole
        // (`load_all` copied all of it). A pointer to code is a function pointer on the systems that `memmap2` supports.
        unsafe { std::mem::transmute::<*const u8, Function>(start) }
    }
}
