//! Code in memory. All unsafe code of the crate stands here.
//!
//! The module relies on [`LoadedCode`] to keep code unchanged at its address. It cannot prove that callers pass
//! the arguments that a program expects; [`ExecutableCode::function`] lists these.
#![allow(unsafe_code, reason = "making code callable is what this module is for")]

use std::io;

use code_memory::LoadedCode;

use crate::code::Code;

/// A compiled program: base addresses, bindings, scratch memory, and the range of [`crate::Range::Part`].
pub type Function =
    unsafe extern "C" fn(args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);

/// Compiled programs that can be called, side by side in memory that they keep for as long as this lives.
#[derive(Debug)]
pub struct ExecutableCode {
    loaded: LoadedCode,
}

impl ExecutableCode {
    /// Loads one program.
    ///
    /// # Errors
    ///
    /// If the system gives no memory, or none that may be executed.
    pub fn load(code: &Code) -> io::Result<ExecutableCode> {
        ExecutableCode::load_all(&[code])
    }

    /// Loads several programs, one behind the other.
    ///
    /// # Errors
    ///
    /// As [`ExecutableCode::load`].
    pub fn load_all(codes: &[&Code]) -> io::Result<ExecutableCode> {
        let pieces: Vec<&[u8]> = codes.iter().map(|code| code.bytes()).collect();
        Ok(ExecutableCode { loaded: LoadedCode::load(&pieces)? })
    }

    /// How many programs there are.
    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    /// How many bytes of memory the programs take.
    pub fn bytes(&self) -> usize {
        self.loaded.bytes()
    }

    /// The function of the program at a position in what was loaded.
    ///
    /// Calling it is unsafe. It may be called while this object lives; on a processor that has the
    /// instructions of the code's [`crate::Isa`]; with base addresses aligned to 64 bytes and valid for all
    /// that the program reads and writes at them, all bindings that it mentions, scratch memory aligned and
    /// valid likewise, and such that places with different bases do not overlap where one of them is written.
    ///
    /// # Panics
    ///
    /// If there is no such program.
    pub fn function(&self, position: usize) -> Function {
        let start = self.loaded.address(position);
        // SAFETY: `load_all` loaded whole what `compile` made for this signature, position independent, and this
        // is the address of its first byte in executable memory. On every system where memory for code is
        // mapped, a pointer to code is a function pointer.
        unsafe { std::mem::transmute::<*const u8, Function>(start) }
    }
}
