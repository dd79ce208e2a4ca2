//! What may be chosen, and the capabilities of the least device.

use codegen_core::{Caps, Workgroups};

/// Choices of the codegen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WgslOptions {
    /// Threads of a workgroup in kernels whose iterations are threads; fewer where the target has fewer.
    pub threads: u32,
    /// The most bytes of variables and arrays that a thread may have; kernels that take more are refused.
    pub private_bytes: u32,
}

impl Default for WgslOptions {
    /// 64 threads, a multiple of every subgroup size there is; the 8192 bytes of variables that every WebGPU device has.
    fn default() -> Self {
        WgslOptions { threads: 64, private_bytes: 8192 }
    }
}

/// What every WebGPU device has, browsers included: 32-bit arithmetic, workgroups of 256 threads with 16 KiB of memory.
pub fn baseline_caps() -> Caps {
    // A device may round fma twice. Contraction is allowed anyway, because the device may contract by itself.
    Caps::gpu("webgpu", Workgroups::new(256, 16 << 10))
}
