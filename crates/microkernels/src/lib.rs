#![doc = include_str!("../README.md")]
#[cfg(target_arch = "x86_64")]
mod address; // addresses of initial accumulators and of outputs
#[cfg(target_arch = "x86_64")]
mod blocking; // sizes of cache blocks, and which operands are packed
mod choice; // choices of packing and block sizes, as data and text
#[cfg(target_arch = "x86_64")]
mod chosen; // choices checked against a problem
#[cfg(target_arch = "x86_64")]
mod epilogue; // compiled epilogues
#[cfg(target_arch = "x86_64")]
mod epilogue_program; // epilogue programs for one row of a tile
#[cfg(target_arch = "x86_64")]
mod fused; // generated microkernels with an epilogue
#[cfg(target_arch = "x86_64")]
mod gemm; // the loops around microkernels
mod machine; // the CPU that plans are made for
mod matmul; // GEMM of slices
#[cfg(target_arch = "x86_64")]
mod operand; // checked operands
#[cfg(target_arch = "x86_64")]
mod pack; // packing of micro-panels
#[cfg(target_arch = "x86_64")]
mod plan; // the public plan
mod problem; // the description of a GEMM
#[cfg(target_arch = "x86_64")]
mod simd; // `f32` and `f64` with the vectors of each instruction set
#[cfg(target_arch = "x86_64")]
mod tile; // microkernels compiled ahead of time
#[cfg(not(target_arch = "x86_64"))]
mod unsupported; // the stub for other architectures

#[cfg(not(target_arch = "x86_64"))]
use crate::unsupported as plan;

pub use crate::choice::{BlockingChoice, ChoiceError, PackedBlocks};
pub use crate::machine::CpuTarget;
pub use crate::matmul::{Matmul, MatmulError, MatmulFloat, MatmulShape};
pub use crate::plan::GemmPlan;
pub use crate::problem::{
    ACCUMULATORS, AxisOffsets, COLUMN, EPILOGUE_LANES, GemmOperand, GemmProblem, OperandBound, ParallelAxis,
    ROW, batch_index,
};

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
debug_as_display!(ChoiceError, MatmulError);
