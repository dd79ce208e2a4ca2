//! The first half: a kernel that is known to be compilable, as source for the second.

use codegen_core::{Caps, CodegenError, Kernel, Renderer};
use lowered_ir::verify::verify;

use crate::support;

/// Checks kernels. The IR itself is the source, since [`crate::CraneliftCompiler`] writes machine code from it directly.
#[derive(Clone, Copy, Debug, Default)]
pub struct CraneliftRenderer;

/// A kernel all of whose operations can be compiled.
#[derive(Clone, Debug)]
pub struct CheckedKernel(pub(crate) Kernel);

impl Renderer for CraneliftRenderer {
    type Source = CheckedKernel;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CheckedKernel, CodegenError> {
        support::check(kernel, caps.contractions)?;
        // What the verifier does not accept could write anywhere. It is the caller's promise, so checking is for debugging.
        if cfg!(debug_assertions) {
            verify(&kernel.ir)
                .map_err(|e| support::failed(&kernel.abi.name, "verification", e.to_string()))?;
        }
        Ok(CheckedKernel(kernel.clone()))
    }
}
