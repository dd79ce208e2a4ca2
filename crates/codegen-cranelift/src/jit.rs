//! Loading machine code and turning it into functions. Unsafe code is in this module and in
//! [`crate::composite::run`].
//!
//! Invariants it relies on and keeps:
//!
//! * Loaded code is made by [`crate::emit`] or by `vector-asm`; both give functions the signature of
//!   [`HostFn`].
//! * Code is dropped only when nobody can call it any more: [`host_module`] makes it the owner of the
//!   functions in the [`HostModule`], which lives as long as any clone of it.
#![allow(unsafe_code, reason = "machine code is turned into function pointers here")]

use std::io::ErrorKind;
use std::mem::transmute;
use std::sync::Arc;

use code_memory::LoadedCode;
use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{CodegenError, KernelAbi};
use vector_asm::VectorCode;

use crate::composite::run::CompositeKernel;
use crate::perf_map;
use crate::relocate::{Call, CraneliftCode};

/// A compiled kernel that is not loaded yet.
pub(crate) enum Compiled {
    Function(CraneliftCode),
    Program(VectorCode),
    /// A composite kernel, and the code of its compiled parts.
    Steps(Box<CompositeKernel>, Vec<Compiled>),
}

/// Loads kernels and returns them as a module, in order. Each kernel comes with its ABI, and both are the
/// output of [`crate::compile`] for one [`Kernel`](codegen_core::Kernel). The code of all kernels is adjacent
/// in memory, and callable for as long as any clone of the module lives.
pub(crate) fn host_module(kernels: Vec<(Compiled, KernelAbi)>) -> Result<HostModule, CodegenError> {
    let mut pieces = Vec::new();
    collect_pieces(kernels.iter().map(|(compiled, _)| compiled), &mut pieces);
    let loaded = LoadedCode::load(&pieces).map_err(|error| {
        let kernel = kernels.first().map(|(_, abi)| abi.name.clone()).unwrap_or_default();
        match error.kind() {
            ErrorKind::PermissionDenied => CodegenError::CodeForbidden { kernel, cause: error.to_string() },
            _ => CodegenError::OutOfMemory { kernel, bytes: pieces.iter().map(|piece| piece.len()).sum() },
        }
    })?;
    let bytes = loaded.bytes() + kernels.iter().map(|(compiled, _)| compiled.plan_bytes()).sum::<usize>();
    let mut loader = KernelLoader { loaded: &loaded, functions: Vec::new() };
    let mut native = Vec::with_capacity(kernels.len());
    let mut forms = Vec::with_capacity(kernels.len());
    for (compiled, abi) in kernels {
        let (code, form) = loader.native(compiled, &abi.name);
        native.push((code, abi));
        forms.push(form);
    }
    let functions = loader.functions;
    let owner = Arc::new(LoadedKernels { loaded, functions, forms });
    // SAFETY: each kernel was compiled from a `Kernel`, whose IR is verified and agrees with its ABI in
    // sizes, access, ranges, log lines and the loop that calls divide. So the code accesses only elements of
    // its parameters and of its scratch memory that are proved or checked to be in bounds. The ABI has as
    // many scratch bytes as the code was laid out for. The code writes the elements that the kernel's
    // statements write, does not trap, and has only instructions of this CPU (`compile::check_width`). Vector
    // programs access the same elements as the statements that they were translated from; composites run
    // their parts in the order of the statements. The code calls only `runtime_functions`, which do not
    // unwind, and the log. `owner` keeps all functions mapped.
    let module = unsafe { HostModule::native(native, owner) };
    Ok(module.with_code_bytes(bytes))
}

/// Collects the code to load, in the order in which [`KernelLoader`] takes it.
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
    /// Bytes of memory for the code that GEMM plans have loaded themselves.
    fn plan_bytes(&self) -> usize {
        match self {
            Compiled::Function(_) | Compiled::Program(_) => 0,
            Compiled::Steps(composite, parts) => {
                composite.plans().iter().map(|plan| plan.code_bytes()).sum::<usize>()
                    + parts.iter().map(Compiled::plan_bytes).sum::<usize>()
            }
        }
    }
}

/// The code of a module, with what is needed to store it.
pub(crate) struct LoadedKernels {
    pub(crate) loaded: LoadedCode,
    /// The functions, in the order in which they were loaded.
    pub(crate) functions: Vec<LoadedFunction>,
    /// The kernels, in order.
    pub(crate) forms: Vec<KernelForm>,
}

/// A loaded function.
pub(crate) struct LoadedFunction {
    /// The number of instruction bytes at its start.
    pub(crate) instructions: usize,
    /// Its calls of functions of this process.
    pub(crate) calls: Vec<Call>,
    /// Whether Cranelift made it.
    pub(crate) is_of_cranelift: bool,
}

/// The form of a loaded kernel or part. Functions follow each other in the order of the forms.
pub(crate) enum KernelForm {
    Function,
    Composite(Arc<CompositeKernel>, Vec<KernelForm>),
}

/// Turns loaded code into functions, one after the other.
struct KernelLoader<'l> {
    loaded: &'l LoadedCode,
    /// The functions so far.
    functions: Vec<LoadedFunction>,
}

impl KernelLoader<'_> {
    fn native(&mut self, compiled: Compiled, name: &str) -> (NativeCode, KernelForm) {
        match compiled {
            Compiled::Function(code) => {
                let calls = code.calls().to_vec();
                let instructions = code.bytes().len();
                self.function(LoadedFunction { instructions, calls, is_of_cranelift: true }, name)
            }
            Compiled::Program(code) => {
                let instructions = code.instruction_bytes();
                let function = LoadedFunction { instructions, calls: Vec::new(), is_of_cranelift: false };
                self.function(function, name)
            }
            Compiled::Steps(mut composite, parts) => {
                let (parts, forms) = parts.into_iter().map(|part| self.native(part, name)).unzip();
                composite.parts = parts;
                let composite = Arc::new(*composite);
                let kernel = Arc::<CompositeKernel>::clone(&composite);
                (NativeCode::Object(kernel), KernelForm::Composite(composite, forms))
            }
        }
    }

    /// Returns the next loaded function.
    fn function(&mut self, function: LoadedFunction, name: &str) -> (NativeCode, KernelForm) {
        let address = self.loaded.address(self.functions.len());
        perf_map::record(name, address.addr(), function.instructions);
        self.functions.push(function);
        // SAFETY: every loaded function comes from `crate::emit` with `emit::signature` in the platform's C
        // calling convention, or from a vector program. Both are `HostFn`: five pointer-sized arguments and
        // no result. The code is position independent and starts with its first byte.
        let function = unsafe { transmute::<*const u8, HostFn>(address) };
        (function.into(), KernelForm::Function)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use codegen_core::host::HostPtr;

    use super::*;

    /// Calls the first kernel of a module for its whole range. The kernel has neither symbols nor scratch
    /// memory.
    pub(crate) fn call(module: &HostModule, args: &[HostPtr]) {
        // SAFETY: the tests pass one live array per parameter, of the size the kernel's text states.
        unsafe { module.call(0, args, &[], std::ptr::null_mut(), 0, 1) }.unwrap();
    }
}
