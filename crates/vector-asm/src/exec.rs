//! Loads code and makes it callable. This is the crate's only module with unsafe code.
//!
//! The module relies on [`LoadedCode`] to keep code unchanged at its address. It cannot prove that callers
//! pass the arguments that a program expects; [`ExecutableCode::function`] lists these.
#![allow(unsafe_code, reason = "making code callable is what this module is for")]

use std::io;

use code_memory::LoadedCode;

use crate::code::VectorCode;
use crate::processor::VectorFunction;

impl VectorCode {
    /// The code of a program that was compiled before, from a copy of its bytes and the number of instruction
    /// bytes among them.
    ///
    /// # Safety
    ///
    /// [`compile`](crate::compile()) of this version made the bytes, for an instruction set of this processor.
    pub unsafe fn from_compiled(bytes: Vec<u8>, instructions: usize) -> VectorCode {
        VectorCode { bytes, instructions }
    }
}

/// Compiled programs in executable memory, which is freed when this is dropped.
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
    pub fn load(code: &VectorCode) -> io::Result<ExecutableCode> {
        ExecutableCode::load_all(&[code])
    }

    /// Loads several programs into adjacent memory.
    ///
    /// # Errors
    ///
    /// The errors of [`ExecutableCode::load`].
    pub fn load_all(codes: &[&VectorCode]) -> io::Result<ExecutableCode> {
        let pieces: Vec<&[u8]> = codes.iter().map(|code| code.bytes()).collect();
        Ok(ExecutableCode { loaded: LoadedCode::load(&pieces)? })
    }

    /// The number of programs that were loaded.
    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    /// Whether there are no programs.
    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    /// Bytes of memory that the programs take.
    pub fn bytes(&self) -> usize {
        self.loaded.bytes()
    }

    /// The code of the program at `position` among those loaded, followed by its constants.
    ///
    /// # Panics
    ///
    /// If no program has this position.
    pub fn code(&self, position: usize) -> &[u8] {
        self.loaded.code(position)
    }

    /// The function of the program at `position` among those loaded.
    ///
    /// Calling the function is unsafe. It may be called while this object lives, on a processor with the
    /// instructions of the code's [`Isa`](crate::Isa). The base addresses and the scratch memory are aligned
    /// to 64 bytes and valid for every access of the program, and `bindings` points to all bindings that the
    /// program uses. Memory accessed through different bases does not overlap if the program writes either.
    ///
    /// # Panics
    ///
    /// If no program has this position.
    pub fn function(&self, position: usize) -> VectorFunction {
        let start = self.loaded.address(position);
        // SAFETY: `load_all` loaded the complete output of `compile`, which is position independent and has
        // this signature; `start` is the address of its first byte in executable memory. On every system
        // where this crate maps executable memory, a pointer to code is a function pointer.
        unsafe { std::mem::transmute::<*const u8, VectorFunction>(start) }
    }
}
