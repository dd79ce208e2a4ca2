//! Kernels in a shading language, for GPUs that run text.
//!
//! A device binds whole slabs of its memory, not nodes, because it has few bindings and may bind a buffer
//! only once. Which of a kernel's parameters share a slab is known when a context is linked, so the text is
//! generated then.

use std::fmt;

use crate::contract::CodegenError;

/// Kernels as text for the slabs that contain their memory. [`crate::abi`] specifies the bindings and their
/// contents.
///
/// Implementing it is safe: a shader accesses only bound slabs, and devices compile shaders with the checks
/// of WGSL, so that accesses beyond the end of a slab stay inside of it. A wrong text leaves wrong values in
/// arrays.
pub trait ShaderModule: fmt::Debug + Send + Sync {
    /// The text of the kernel at a position of the artifact. Memory parameter `i` lies in slab `slabs[i]`;
    /// slabs count from 0 in the order of first mention.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] if the text needs a feature that the target lacks, and
    /// [`CodegenError::Failed`] if the position does not exist, the number of slabs is wrong, or the text is
    /// invalid.
    fn shader(&self, kernel: usize, slabs: &[u32]) -> Result<Shader, CodegenError>;
}

/// The text of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// WGSL with the entry point `main`.
    pub wgsl: String,
    /// The number of workgroups. A device may split it over up to three dimensions in any way: the kernel
    /// computes the number of a workgroup from its coordinates, and workgroups beyond the last one return.
    pub groups: u64,
    /// Words of the table at binding 0: offsets, then static indices.
    pub table_words: usize,
}
