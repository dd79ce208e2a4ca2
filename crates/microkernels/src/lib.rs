#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "there are plans for vectors of x86-64 and ARM64 only")
)]
mod address; // addresses of initial accumulators and of outputs
#[cfg(target_arch = "x86_64")]
mod amx; // the tile registers of AMX
mod blocking; // sizes of cache blocks, and which operands are packed
mod caches; // the sizes of data caches
mod choice; // choices of packing and block sizes, as data and text
mod chosen; // choices checked against a problem
mod dot; // the instructions that add products of 8-bit integers
mod epilogue; // calls of compiled epilogues
#[cfg(feature = "assembler")]
mod epilogue_code; // which functions an epilogue has, and their compilation
#[cfg(feature = "assembler")]
mod epilogue_program; // epilogue programs for one row of a tile
#[cfg(feature = "assembler")]
mod fused; // generated microkernels with an epilogue
mod gemm; // the loops around microkernels
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod integer; // products of 8-bit integers
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "no_integers.rs"]
mod integer; // the stand-in for other architectures
mod linked; // plans whose functions a program has
mod machine; // the CPU that plans are made for
mod matmul; // GEMM of slices
mod operand; // checked operands
mod pack; // packing of micro-panels
mod plan; // the public plan
mod problem; // the description of a GEMM
mod simd; // `f32` and `f64` with the vectors of each instruction set
#[cfg(feature = "assembler")]
mod stored; // plans that outlive the process
mod tile; // microkernels compiled ahead of time
mod tile_shape; // the sizes of tiles

pub use crate::choice::{BlockingChoice, ChoiceError, PackedBlocks};
pub use crate::dot::DotInstructions;
#[cfg(feature = "assembler")]
pub use crate::linked::UnlinkedPlan;
pub use crate::linked::{LinkedPlan, PLAN_VERSION};
pub use crate::machine::CpuTarget;
pub use crate::matmul::{Matmul, MatmulError, MatmulFloat, MatmulShape};
pub use crate::plan::GemmPlan;
pub use crate::problem::{
    ACCUMULATORS, AxisOffsets, COLUMN, Dimension, DynamicExtent, EPILOGUE_LANES, GemmOperand, GemmProblem,
    OperandBound, ParallelAxis, ROW, batch_index,
};
#[cfg(feature = "assembler")]
pub use crate::stored::StoredPlan;

pub use vector_asm::VectorFunction;

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
