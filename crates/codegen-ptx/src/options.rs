//! Options of the codegen, and the capabilities of each target.

use codegen_core::{Caps, DType, DTypeSet, Workgroups};
use ptx_asm::Target;

/// Options of the codegen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PtxOptions {
    /// Threads per block in kernels whose iterations are threads: a multiple of 32. Kernels with few
    /// iterations use half as many, so that more SMs have blocks.
    pub threads: u32,
    /// The tensor-core instructions for matmuls of 16-bit floats in class `Fast`, which leaves the order of
    /// sums open.
    pub tensor_cores: TensorCoreInstructions,
    /// Whether tensor cores also multiply `f32` in class `Fast`. They truncate the operands to `tf32`, which
    /// has 10 bits of mantissa instead of 23, so that the relative error of a product is at most 2⁻⁹. Sums
    /// are as accurate as others.
    pub tf32: bool,
    /// Whether `exp`, `exp2`, `log`, `log2`, `sin`, `cos` and `tanh` of `f32`, and of narrower floats, which
    /// are computed in `f32`, use the hardware's approximations in class `Fast`. `pow` stays accurate.
    ///
    /// | Function | Error at most | Instructions |
    /// |---|---|---|
    /// | `exp2` | 2 ulp | 1 |
    /// | `exp` | 2 + 1.5 `|x|` ulp | 2 |
    /// | `log2`, `log` | 4 ulp; 2⁻²¹ between ½ and 2 | 1, 2 |
    /// | `sin`, `cos` | 2⁻²⁰ for `|x|` up to 1000, then in proportion to it | 5 |
    /// | `tanh` | 2⁻¹⁰ of the result; 2⁻²¹ on [`Target::Sm70`], which has no instruction for it | 1, 5 |
    ///
    /// Subnormal arguments and results are flushed to zero, except by `tanh`. NVIDIA states the errors of
    /// single instructions; the table adds the errors of the instructions around them.
    pub approximate_functions: bool,
    /// The most local memory of a thread for arrays, in bytes; kernels that need more are rejected.
    pub local_bytes: u32,
    /// The largest log buffer of a kernel in bytes. Lines that do not fit are counted.
    pub log_bytes: u32,
}

/// The tensor-core instructions that matmuls use, as far as the target has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorCoreInstructions {
    /// No tensor cores.
    Off,
    /// `mma`, by single warps; from [`Target::Sm80`] on.
    Mma,
    /// The fastest: `wgmma`, by warpgroups, for 16-bit operands on [`Target::Sm90a`]; `mma` otherwise.
    #[default]
    Auto,
}

impl Default for PtxOptions {
    /// 256 threads, tensor cores, accurate functions, 64 KiB of local memory, and logs of 16 MiB.
    fn default() -> Self {
        PtxOptions {
            threads: 256,
            tensor_cores: TensorCoreInstructions::Auto,
            tf32: false,
            approximate_functions: false,
            local_bytes: 64 << 10,
            log_bytes: 16 << 20,
        }
    }
}

/// Operand types whose products are exact on tensor cores.
const HALVES: DTypeSet = DTypeSet::EMPTY.with(DType::F16).with(DType::Bf16);

/// The capabilities of a target: arithmetic on floats of at least 16 bits and integers of 32 and 64 bits,
/// blocks of 1024 threads with 48 KiB of shared memory.
pub fn ptx_caps(target: Target) -> Caps {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U32, U32x4, U64};
    // An SM with 65,536 registers holds two blocks of 256 threads if a thread uses at most 128. The schedule
    // may use 96 of them; the others are left for addresses.
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
