//! The renderer: checks kernels.

use codegen_core::{Caps, CodegenError, DTypeSet, Kernel, Renderer};

use crate::support;

/// Checks kernels, which [`CraneliftCompiler`](crate::CraneliftCompiler) compiles directly.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct CraneliftRenderer;

/// Says that the operations of a kernel are all supported.
#[derive(Clone, Copy, Debug)]
pub struct CheckedKernel {
    /// The element types of contractions for which the kernel was checked.
    pub(crate) contractions: DTypeSet,
}

impl Renderer for CraneliftRenderer {
    type Source = CheckedKernel;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CheckedKernel, CodegenError> {
        support::check(kernel, caps.contractions)?;
        Ok(CheckedKernel { contractions: caps.contractions })
    }
}
