//! What may be chosen, and the capabilities of the least device.

use codegen_core::{Caps, DTypeSet, Transcendental, Workgroups};
use tnode::DType;

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
    Caps {
        target: "webgpu".into(),
        storage: DType::ALL.into_iter().collect::<DTypeSet>(),
        arithmetic: [DType::Bool, DType::I32, DType::U32, DType::F32, DType::U32x4].into_iter().collect(),
        transcendental: Transcendental::Expanded,
        vector_bytes: 16,
        vector_registers: 16,
        contractions: DTypeSet::EMPTY,
        // A device may round twice; products are contracted all the same, since it may do that by itself too.
        fma: true,
        l1_bytes: 16 << 10,
        l2_bytes: 1 << 20,
        threads: 1,
        alignment: 256,
        index: DType::I32,
        workgroups: Some(Workgroups::new(256, 16 << 10)),
    }
}
