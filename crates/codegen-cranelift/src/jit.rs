//! Machine code in memory: loading, calling conventions, freeing. Unsafe code stands here and in
//! [`crate::contract::run`].
//!
//! Invariants it relies on and keeps:
//!
//! * Loaded code is made by [`crate::emit`] or by `vector-asm`; both give functions the signature of [`HostFn`].
//! * VectorCode is dropped only when nobody can call it any more: [`host_module`] hands it to the [`HostModule`] as
//!   the owner of the functions, which lives as long as any clone of it.
#![allow(unsafe_code, reason = "machine code is turned into function pointers here")]

use std::mem::transmute;
use std::sync::Arc;

use code_memory::LoadedCode;
use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{CodegenError, KernelAbi};
use vector_asm::VectorCode;

use crate::contract::run::Composite;
use crate::perf_map;
use crate::relocate::CraneliftCode;

/// A compiled kernel, not loaded yet.
pub(crate) enum Compiled {
    /// By Cranelift.
    Function(CraneliftCode),
    /// A vector program.
    Program(VectorCode),
    /// Steps, and the code that they call.
    Steps(Box<Composite>, Vec<Compiled>),
}

/// The kernels, each with how it is called, in order; callable for as long as any clone of the result lives. Both
/// are what [`crate::compile`] made of one [`Kernel`](codegen_core::Kernel). All their code is side by side in
/// memory.
pub(crate) fn host_module(kernels: Vec<(Compiled, KernelAbi)>) -> Result<HostModule, CodegenError> {
    let mut pieces = Vec::new();
    collect_pieces(kernels.iter().map(|(compiled, _)| compiled), &mut pieces);
    let loaded = LoadedCode::load(&pieces).map_err(|_| CodegenError::OutOfMemory {
        kernel: kernels.first().map(|(_, abi)| abi.name.clone()).unwrap_or_default(),
        bytes: pieces.iter().map(|piece| piece.len()).sum(),
    })?;
    let bytes = loaded.bytes() + kernels.iter().map(|(compiled, _)| compiled.plan_bytes()).sum::<usize>();
    let mut loader = KernelLoader { loaded: &loaded, next: 0 };
    let mut native = Vec::with_capacity(kernels.len());
    for (compiled, abi) in kernels {
        native.push((loader.native(compiled, &abi.name), abi));
    }
    // SAFETY: each kernel was compiled from a `Kernel`, whose IR is verified and agrees with its ABI in sizes,
    // access, ranges, log lines and the loop that calls are parts of. So the code accesses elements proved in
    // bounds, or checked, of its parameters and its scratch, of which the ABI has as many bytes as it was laid
    // out in, writes the elements that their statements write, and does not trap, with instructions that this
    // machine has (`compile::check_width`). Vector programs access the same elements as the statements they are
    // made of; composites run their parts in the order of the statements. The code calls only `helpers`, which
    // do not unwind, and the log. `loaded`, as the owner, keeps all functions mapped.
    let module = unsafe { HostModule::native(native, Arc::new(loaded)) };
    Ok(module.with_code_bytes(bytes))
}

/// The code to be loaded, in the order in which [`KernelLoader`] asks for it.
fn collect_pieces<'c>(code: impl IntoIterator<Item = &'c Compiled>, pieces: &mut Vec<&'c [u8]>) {
    for compiled in code {
        match compiled {
            Compiled::Function(code) => pieces.push(code.bytes()),
            Compiled::Program(code) => pieces.push(code.bytes()),
            Compiled::Steps(_, parts) => collect_pieces(parts, pieces),
        }
    }
}

impl Compiled {
    /// Bytes of memory for the code that contractions loaded when they were planned.
    fn plan_bytes(&self) -> usize {
        match self {
            Compiled::Function(_) | Compiled::Program(_) => 0,
            Compiled::Steps(composite, parts) => {
                composite.plan_bytes() + parts.iter().map(Compiled::plan_bytes).sum::<usize>()
            }
        }
    }
}

/// Turns loaded code into functions, piece by piece.
struct KernelLoader<'l> {
    loaded: &'l LoadedCode,
    /// The next piece.
    next: usize,
}

impl KernelLoader<'_> {
    fn native(&mut self, compiled: Compiled, name: &str) -> NativeCode {
        match compiled {
            Compiled::Function(code) => self.function(code.bytes().len(), name).into(),
            Compiled::Program(code) => self.function(code.instruction_bytes(), name).into(),
            Compiled::Steps(mut composite, parts) => {
                composite.parts = parts.into_iter().map(|part| self.native(part, name)).collect();
                NativeCode::Object(Arc::new(*composite))
            }
        }
    }

    /// Returns the function of the next piece, which has `bytes` bytes of instructions.
    fn function(&mut self, bytes: usize, name: &str) -> HostFn {
        let address = self.loaded.address(self.next);
        self.next += 1;
        perf_map::record(name, address.addr(), bytes);
        // SAFETY: every piece is a function of `crate::emit` with `emit::signature` in the platform's C
        // calling convention, or a vector program: both are `HostFn`, five pointer-sized arguments and no
        // result, position independent, and begin with their first byte.
        unsafe { transmute::<*const u8, HostFn>(address) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use codegen_core::host::HostPtr;

    use super::*;

    /// Calls the first kernel of a module, which has neither symbols nor scratch memory, whole.
    pub(crate) fn call(module: &HostModule, args: &[HostPtr]) {
        // SAFETY: the tests pass one live array per parameter, of the size the kernel's text states.
        unsafe { module.call(0, args, &[], std::ptr::null_mut(), 0, 1) };
    }
}
