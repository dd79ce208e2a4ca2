//! GEMM microkernels for x86-64: batched, transposed and strided matrix multiplication, and convolution as
//! implicit GEMM, with fused epilogues.
//!
//! # Should I be using this crate?
//!
//! Use it if you know the shapes of your matrix products before you run them, and run them more than once. A
//! [`GemmProblem`] describes the operands A and B, their layout in memory, and the epilogue that is applied
//! to each accumulator; planning it takes microseconds.
//!
//! [`Matmul`] multiplies matrices in slices, without a description of memory. If you want the fastest product
//! of huge matrices on many cores, and do not need the same bits on every machine, a BLAS library may be a
//! better choice.
//!
//! # Promises
//!
//! * **The same bits everywhere.** Each accumulator adds its products in ascending order of K with fused
//!   multiply-add. The result does not depend on the CPU, its caches, or the division among threads.
//! * **No hidden work in a call.** [`GemmPlan::run`] neither allocates nor blocks. It uses the calling
//!   thread, and the scratch memory that the caller passes.
//! * **No access out of bounds.** A call touches only the elements that the problem describes; elements
//!   outside of an [`OperandBound`] are not even read.
//! * **No plan rather than a wrong one.** [`GemmPlan::new`] returns `None` for a problem that it cannot
//!   compute exactly as described.
//!
//! # Example
//!
//! `C = relu(A · B + bias)` with a `2 × 3` matrix A and a `3 × 2` matrix B, both row-major:
//!
//! ```
//! use microkernels::*;
//! use vector_asm::{VectorBuilder, LaneType, StoredType, VectorAddress, VectorType};
//!
//! let operand = |base, outer, k| GemmOperand {
//!     base,
//!     memory: StoredType::Same,
//!     offset: 0,
//!     terms: vec![],
//!     outer: AxisOffsets::Strided(outer),
//!     k: AxisOffsets::Strided(k),
//!     bounds: vec![],
//! };
//! // Arguments: 0 is A, 1 is B, 2 is C, 3 is the bias.
//! let mut epilogue = VectorBuilder::new();
//! let lanes = VectorType::new(LaneType::F32, EPILOGUE_LANES);
//! let accumulators = epilogue.variable(lanes);
//! let accumulators = epilogue.get(accumulators);
//! let bias = epilogue.load(VectorAddress::at(3, LaneType::F32).by(COLUMN, 4), lanes);
//! let sum = epilogue.add(accumulators, bias);
//! let zero = epilogue.f32(0.0);
//! let relu = epilogue.max(sum, zero);
//! epilogue.store(VectorAddress::at(2, LaneType::F32).by(ROW, 8).by(COLUMN, 4), relu);
//! let problem = GemmProblem {
//!     element: LaneType::F32,
//!     batch: vec![],
//!     m: 2,
//!     n: 2,
//!     k: 3,
//!     a: operand(0, 12, 4),
//!     b: operand(1, 4, 8),
//!     initial: None,
//!     epilogue: epilogue.finish(),
//!     parallel: ParallelAxis::None,
//! };
//!
//! // There is a plan on every CPU with AVX2, FMA and F16C.
//! if let Some(plan) = GemmPlan::new(&problem, &CpuTarget::detect()) {
//!     let (mut a, mut b) = ([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0_f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
//!     let (mut c, mut bias) = ([0.0_f32; 4], [0.0_f32, -6.0]);
//!     let args = [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr(), bias.as_mut_ptr()];
//!     let args = args.map(|p| p.cast::<u8>());
//!     let mut scratch = vec![0_u8; plan.scratch_bytes() + 64];
//!     let aligned = scratch.as_ptr().align_offset(64);
//!     let scratch = scratch[aligned..].as_mut_ptr();
//!     // SAFETY: the arrays have the elements of the problem and do not overlap; the scratch memory has
//!     // `scratch_bytes` bytes and is aligned.
//!     unsafe { plan.run(args.as_ptr(), std::ptr::null(), scratch, 0, plan.extent()) };
//!     assert_eq!(c, [4.0, 0.0, 10.0, 5.0]);
//! }
//! ```
//!
//! # How a plan runs
//!
//! The structure is that of GotoBLAS and BLIS. The M, N and K dimensions are cut into blocks for the L1, L2
//! and L3 caches; blocks of A and B are packed into contiguous micro-panels where that pays; and a
//! microkernel keeps a register tile of at most 6 rows by 2 vectors of accumulators while it walks along K.
//! Operands that are small are read in place. Operands may be transposed, strided, in half precision, or
//! addressed by tables of offsets with [`OperandBound`]s (convolutions); packing makes them all alike. An
//! operand A with tables and without bounds is read in place, through row addresses and offsets along K, if B
//! is narrow.
//!
//! The epilogue is any straight-line program of `vector-asm`. A short epilogue is compiled together with a
//! microkernel and applied while the accumulators are in registers; a long one runs over tiles of
//! accumulators in the L1 cache.
//!
//! The indirect convolution algorithm of XNNPACK is the source of the reads through tables: Dukhan, The
//! Indirect Convolution Algorithm, 2019.

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
mod float; // `f32` and `f64` with their AVX2 instructions
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
