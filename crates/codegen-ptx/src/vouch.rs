//! From kernels to an artifact: the crate's unsafe code, which vouches for the generated programs.
//!
//! It relies on three facts. A [`Kernel`] is verified and agrees with its ABI, so every
//! access of its IR lies within the bytes of its parameters. [`crate::emit`] and [`crate::tensor_cores`]
//! access what the IR accesses, whatever the symbols are. [`ptx_asm::check`] has accepted each program.
//! `tests/corpus.rs` checks every program, and `tests/interpreted.rs` runs programs on a simulated GPU that
//! reports every access out of bounds.
#![allow(
    unsafe_code,
    reason = "programs for devices address whatever these reach, so somebody has to vouch for them"
)]

use codegen_core::{Artifact, CodegenError, Kernel, PtxModule};

use crate::module::{Ptx, PtxKernels};

/// The artifact of a routine's kernels.
pub(crate) fn artifact(codegen: &Ptx, kernels: &[Kernel]) -> Result<Artifact, CodegenError> {
    let PtxKernels { module, launches } = codegen.render(kernels)?;
    let text = ptx_asm::print(&module).into();
    let abis = kernels.iter().map(|kernel| kernel.abi().clone());
    let (target, launched) = (module.target.name().into(), launches.into_iter().zip(abis).collect());
    // SAFETY: the text and the launches were rendered from these kernels in the line above, in their order,
    // and nothing has changed them; the module's documentation states the promise of `render`.
    Ok(Artifact::ptx(unsafe { PtxModule::new(text, target, launched) }))
}
