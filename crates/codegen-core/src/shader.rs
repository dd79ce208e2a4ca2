//! Kernels in a shading language: what a codegen for GPUs hands to a device that reaches them through one.
//!
//! A device binds whole slabs of its memory, not nodes: there are few bindings, and one buffer may be bound once. Which of a
//! kernel's parameters share a slab is known when a context is linked, so that is when the text is made.

use std::fmt;

use crate::contract::CodegenError;

/// Kernels as text, made for the slabs that their memory lies in. `docs/abi.md` has the bindings and what stands in them.
///
/// Implementing it is safe: a shader reaches the slabs that are bound and nothing else, and devices make
/// shaders with the checks of WGSL, so that accesses behind the end of a slab stay inside of it. A wrong text
/// leaves wrong values in arrays.
pub trait ShaderModule: fmt::Debug + Send + Sync {
    /// The text of the kernel at a position of the artifact, for memory parameters of which parameter `i` lies in slab
    /// `slabs[i]`. Slabs count from 0 in the order of first mention.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] where the text needs what the target lacks, and [`CodegenError::Failed`] if the position does
    /// not exist, the number of slabs is wrong, or the text is invalid.
    fn shader(&self, kernel: usize, slabs: &[u32]) -> Result<Shader, CodegenError>;
}

/// One kernel as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// WGSL with the entry point `main`.
    pub wgsl: String,
    /// How many workgroups run it, in up to three dimensions of any split: the kernel counts them by itself and returns where there
    /// are too many.
    pub groups: u64,
    /// Words of the table at binding 0: offsets, then static indices.
    pub table_words: usize,
}
