//! The first half: a kernel that is known to be compilable, as source for the second.

use codegen_core::{Caps, CodegenError, DTypeSet, Kernel, Renderer};

use crate::support;

/// Checks kernels. The IR itself is the source, since [`crate::CraneliftCompiler`] writes machine code from it directly.
#[derive(Clone, Copy, Debug, Default)]
pub struct CraneliftRenderer;

/// A kernel all of whose operations can be compiled.
#[derive(Clone, Debug)]
pub struct CheckedKernel {
    pub(crate) kernel: Kernel,
    /// The types of contractions for which it was checked.
    pub(crate) contractions: DTypeSet,
}

impl Renderer for CraneliftRenderer {
    type Source = CheckedKernel;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CheckedKernel, CodegenError> {
        support::check(kernel, caps.contractions)?;
        Ok(CheckedKernel { kernel: kernel.clone(), contractions: caps.contractions })
    }
}
