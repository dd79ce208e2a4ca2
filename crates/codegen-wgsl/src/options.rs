//! The codegen's options, and the capabilities of the least capable device.

use codegen_core::{Caps, Workgroups};

/// Options of the codegen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WgslOptions {
    /// Number of threads per workgroup in kernels whose iterations are mapped to threads, at most the
    /// target's limit.
    pub threads: u32,
    /// Maximum size in bytes of a thread's variables and arrays. Kernels that need more are unsupported.
    pub private_bytes: u32,
}

impl Default for WgslOptions {
    /// 64 threads, a multiple of all existing subgroup sizes; and 8192 bytes of variables, which every WebGPU
    /// device supports.
    fn default() -> Self {
        WgslOptions { threads: 64, private_bytes: 8192 }
    }
}

/// The capabilities of every WebGPU device, browsers included: 32-bit arithmetic, workgroups of 256 threads,
/// 16 KiB of workgroup memory.
pub fn baseline_caps() -> Caps {
    // A device may round fma twice. Contraction is allowed anyway, because the device may contract by itself.
    Caps::gpu("webgpu", Workgroups::new(256, 16 << 10))
}
