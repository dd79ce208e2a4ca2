//! The renderer: checks kernels and passes them on to the compiler.

use codegen_core::{Caps, CodegenError, DTypeSet, Kernel, Renderer};

use crate::support;

/// Checks kernels. The IR itself is the source, because [`CraneliftCompiler`](crate::CraneliftCompiler)
/// compiles it directly.
#[derive(Clone, Copy, Debug, Default)]
pub struct CraneliftRenderer;

/// A kernel whose operations are all supported.
#[derive(Clone, Debug)]
pub struct CheckedKernel {
    pub(crate) kernel: Kernel,
    /// The element types of contractions for which the kernel was checked.
    pub(crate) contractions: DTypeSet,
}

impl Renderer for CraneliftRenderer {
    type Source = CheckedKernel;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CheckedKernel, CodegenError> {
        support::check(kernel, caps.contractions)?;
        Ok(CheckedKernel { kernel: kernel.clone(), contractions: caps.contractions })
    }
}
