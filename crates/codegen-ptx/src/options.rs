//! What may be chosen, and what each family of processors can do.

use codegen_core::{Caps, DTypeSet, Workgroups};
use ptx_asm::Target;
use tnode::DType;

/// Choices of the codegen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PtxOptions {
    /// Threads of a block in kernels whose iterations are threads, a multiple of 32. Kernels of few iterations take half as many, so that
    /// more processors have some of them.
    pub threads: u32,
    /// Which tensor cores take products of 16-bit floats, where class `Fast` leaves the order of sums open.
    pub tensor_cores: TensorCores,
    /// Whether tensor cores take products of `f32` as well, in class `Fast`: they cut factors off to `tf32`, which has 10 bits of mantissa instead of
    /// 23, so that a product is off by 2⁻⁹ of itself at most. Sums are as accurate as others.
    pub tf32: bool,
    /// Whether `exp`, `exp2`, `log`, `log2`, `sin`, `cos` and `tanh` of `f32`, and of narrower floats, which are computed in it, are the processor's
    /// approximations in class `Fast`. `pow` stays accurate.
    ///
    /// | Function | Off by at most | Instructions |
    /// |---|---|---|
    /// | `exp2` | 2 ulp | 1 |
    /// | `exp` | 2 + 1.5 `|x|` ulp | 2 |
    /// | `log2`, `log` | 4 ulp; 2⁻²¹ between ½ and 2 | 1, 2 |
    /// | `sin`, `cos` | 2⁻²⁰ for `|x|` up to 1000, then in proportion to it | 5 |
    /// | `tanh` | 2⁻¹⁰ of the result; 2⁻²¹ on [`Target::Sm70`], which has no instruction for it | 1, 5 |
    ///
    /// Arguments and results that are subnormal are zeros, but for `tanh`. The bounds of single instructions are NVIDIA's; the rest is what the steps
    /// add.
    pub approximate_functions: bool,
    /// The most bytes of arrays that a thread may have in memory of its own; kernels that take more are refused.
    pub local_bytes: u32,
    /// The most bytes of the buffer that a run of a kernel logs to; what has no room in it is counted.
    pub log_bytes: u32,
}

/// Which instructions of tensor cores are used, of those that a target has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorCores {
    /// None.
    Off,
    /// `mma`, by single warps: from [`Target::Sm80`] on.
    Warps,
    /// The fastest: `wgmma`, by four warps together, on [`Target::Sm90a`].
    #[default]
    Auto,
}

impl Default for PtxOptions {
    /// 256 threads, tensor cores, accurate functions, 64 KiB of arrays, and 16 MiB of a log.
    fn default() -> Self {
        PtxOptions {
            threads: 256,
            tensor_cores: TensorCores::Auto,
            tf32: false,
            approximate_functions: false,
            local_bytes: 64 << 10,
            log_bytes: 16 << 20,
        }
    }
}

/// Types of factors that tensor cores multiply exactly.
const HALVES: DTypeSet = DTypeSet::EMPTY.with(DType::F16).with(DType::Bf16);

/// What the processors of a target have: arithmetic in all floats of 16 bits and more and all integers of 32 and 64, blocks of 1024
/// threads with 48 KiB of shared memory.
pub fn ptx_caps(target: Target) -> Caps {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U32, U32x4, U64};
    // A thread has 128 registers if an SM holds two blocks of 256 threads; the others are for addresses.
    let workgroups =
        Workgroups { registers: 96, subgroup_size: 32, element_bytes: 2, ..Workgroups::new(1024, 48 << 10) };
    Caps {
        arithmetic: [Bool, I32, U32, I64, U64, F16, Bf16, F32, F64, U32x4].into_iter().collect(),
        vector_registers: 64,
        contractions: if target >= Target::Sm80 { HALVES } else { DTypeSet::EMPTY },
        l1_bytes: 64 << 10,
        l2_bytes: 4 << 20,
        ..Caps::gpu(target.name(), workgroups)
    }
}
