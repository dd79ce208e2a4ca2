//! Compiles loops around straight-line vector code to x86-64 machine code.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate numeric kernels at run time, know their loops and shapes, and want 256-bit (or
//! 512-bit) vector code tens of microseconds later. You write a [`VectorProgram`]: loops with constant
//! bounds, loads and stores at affine addresses, vector operations on values of any number of lanes, and
//! loop-carried variables. [`compile`] turns it into one position-independent function. The crate knows
//! nothing of arrays, of the types of other compilers, or of threads.
//!
//! # Example
//!
//! ```
//! use vector_asm::{EvaluationState, ExecutableCode, Isa, compile, evaluate};
//! use vector_asm::{LaneType, LoopRange, VectorAddress, VectorBuilder, VectorType};
//!
//! // y[i] = max(2 x[i] + 1, 0), for 64 elements.
//! let mut b = VectorBuilder::new();
//! let (two, one, zero) = (b.f32(2.0), b.f32(1.0), b.f32(0.0));
//! b.repeat(LoopRange::Constant(2), |b, i| {
//!     let x = b.load(VectorAddress::at(0, LaneType::F32).by(i, 128), VectorType::new(LaneType::F32, 32));
//!     let y = b.fma(x, two, one);
//!     let y = b.max(y, zero);
//!     b.store(VectorAddress::at(1, LaneType::F32).by(i, 128), y);
//! });
//! let program = b.finish();
//!
//! // The reference evaluator defines the meaning.
//! let mut machine = EvaluationState { args: vec![vec![0; 256]; 2], ..EvaluationState::default() };
//! evaluate(&program, &mut machine, 0..1)?;
//! assert_eq!(machine.args[1][..4], 1_f32.to_le_bytes());
//!
//! // Machine code computes the same.
//! if let Some(isa) = Isa::detect() {
//!     #[repr(align(64))]
//!     struct Aligned([f32; 64]);
//!     let (mut x, mut y) = (Aligned([-3.0; 64]), Aligned([9.0; 64]));
//!     let code = ExecutableCode::load(&compile(&program, isa)?)?;
//!     let args = [x.0.as_mut_ptr().cast::<u8>(), y.0.as_mut_ptr().cast()];
//!     // SAFETY: both arrays have 64 elements, are aligned, and live until the end of the call.
//!     unsafe { code.function(0)(args.as_ptr(), std::ptr::null(), std::ptr::null_mut(), 0, 1) };
//!     assert_eq!(y.0, [0.0; 64]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! The code computes the same bits as [`evaluate`], except for the payload and sign of NaN. A program that
//! the crate cannot compile exactly is rejected ([`VectorCompileError`]), never approximated. The code
//! accesses the bytes at its addresses and no others, also in the last iteration. It traps on no data and
//! uses no legacy SSE instruction.

mod builder; // builds programs
mod program; // the program representation

mod check; // verifies programs
mod display; // programs as text
mod evaluate; // the reference evaluator

mod address; // general registers for pointers
mod allocate; // vector registers by linear scan
mod avx2; // the AVX2 instruction table
mod avx512; // the AVX-512 instruction table
mod code; // the compiler's stages, in order
mod emit; // machine-code encoding
mod live; // liveness of variables by lane
mod lower; // programs to machine instructions
mod machine; // machine instructions before allocation
mod order; // instruction order by register pressure

mod exec; // loads code and makes it callable

pub use crate::builder::VectorBuilder;
pub use crate::check::VectorProgramError;
pub use crate::code::{Isa, VectorCode, VectorCompileError, compile};
pub use crate::evaluate::{EvaluateError, EvaluationState, evaluate};
pub use crate::exec::{ExecutableCode, VectorFunction};
pub use crate::program::{
    Binary, Comparison, Counter, CounterSum, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
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
debug_as_display!(EvaluateError, VectorProgramError, VectorCompileError);
