//! What may be chosen, and what each family of processors can do.

use codegen_core::{Caps, Workgroups};
use ptx_asm::Target;
use tnode::DType;

/// Choices of the codegen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PtxOptions {
    /// Threads of a block in kernels whose iterations are threads, a multiple of 32. Kernels of few iterations take half as many, so that
    /// more processors have some of them.
    pub threads: u32,
    /// Whether products of 16-bit floats, where class `Fast` leaves the order of sums open, are taken to tensor cores by targets that have them
    /// in a form that this codegen writes: from [`Target::Sm80`] on.
    pub tensor_cores: bool,
    /// The most bytes of arrays that a thread may have in memory of its own; kernels that take more are refused.
    pub local_bytes: u32,
}

impl Default for PtxOptions {
    /// 256 threads, tensor cores, and 64 KiB of arrays.
    fn default() -> Self {
        PtxOptions { threads: 256, tensor_cores: true, local_bytes: 64 << 10 }
    }
}

/// What the processors of a target have: arithmetic in all floats of 16 bits and more and all integers of 32 and 64, blocks of 1024
/// threads with 48 KiB of shared memory.
pub fn ptx_caps(target: Target) -> Caps {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U32, U32x4, U64};
    Caps {
        target: target.name().into(),
        storage: DType::ALL.into_iter().collect(),
        arithmetic: [Bool, I32, U32, I64, U64, F16, Bf16, F32, F64, U32x4].into_iter().collect(),
        transcendental: false,
        vector_bytes: 16,
        vector_registers: 64,
        contractions: target >= Target::Sm80,
        fma: true,
        l1_bytes: 64 << 10,
        l2_bytes: 4 << 20,
        threads: 1,
        alignment: 256,
        index: DType::I32,
        workgroups: Some(Workgroups {
            threads: 1024,
            memory_bytes: 48 << 10,
            // Of 128, with which a multiprocessor has two blocks of 256 threads; the others are for addresses.
            registers: 96,
            lanes: 32,
            element_bytes: 2,
        }),
    }
}
