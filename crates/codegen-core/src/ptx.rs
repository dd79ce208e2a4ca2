//! Kernels in PTX: what a codegen for NVIDIA's processors hands to a device.

use std::sync::Arc;

/// The kernels of an artifact as one PTX file. `docs/abi.md` has the parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// The text.
    pub text: Arc<str>,
    /// The processor it is for, as its `.target` line says: `sm_80`.
    pub target: String,
    /// How each kernel is launched, in the order of the artifact.
    pub launches: Vec<PtxLaunch>,
}

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxLaunch {
    /// Its entry point; no two of a module are the same.
    pub entry: String,
    /// How many blocks run it; at least 1.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory that the launch gives to each block, besides what the text declares; beyond 48 KiB the kernel has to be told.
    pub dynamic_shared_bytes: u32,
}
