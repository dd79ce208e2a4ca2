//! Compiles loops around straight-line vector code to x86-64 machine code.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate numeric kernels at run time, know their loops and shapes, and want 256-bit (or 512-bit) vector code tens of
//! microseconds later. You write a [`Program`]: loops with constant bounds, loads and stores at affine addresses, vector operations on values of any number of
//! lanes, and variables that loops carry. What comes out is one position-independent function. The crate knows nothing of arrays, types
//! of other compilers, or threads.
//!
//! # Example
//!
//! ```
//! use vector_asm::{Builder, Element, ExecutableCode, Isa, Machine, Place, Range, Type, compile, evaluate};
//!
//! // y[i] = max(2 x[i] + 1, 0), for 64 elements.
//! let mut b = Builder::new();
//! let (two, one, zero) = (b.f32(2.0), b.f32(1.0), b.f32(0.0));
//! b.repeat(Range::To(2), |b, i| {
//!     let x = b.load(Place::at(0, Element::F32).by(i, 128), Type::new(Element::F32, 32));
//!     let y = b.fma(x, two, one);
//!     let y = b.max(y, zero);
//!     b.store(Place::at(1, Element::F32).by(i, 128), y);
//! });
//! let program = b.finish();
//!
//! // What it means.
//! let mut machine = Machine { args: vec![vec![0; 256]; 2], ..Machine::default() };
//! evaluate(&program, &mut machine, 0..1)?;
//! assert_eq!(machine.args[1][..4], 1_f32.to_le_bytes());
//!
//! // The same as machine code.
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
//! Code computes what [`evaluate`] computes, bit for bit but for which NaN: programs are refused ([`Refusal`]), never approximated. It touches the bytes of its
//! places and no others, tails included. It traps on no data and uses no legacy SSE.

mod builder; // writes programs
mod program; // what is compiled

mod check; // what makes a program one
mod display; // programs as text
mod evaluate; // what programs mean

mod address; // pointers
mod allocate; // machine registers
mod avx2; // the instructions
mod avx512; // the same, twice as wide
mod code; // the stages below, in order
mod emit; // bytes
mod live; // which lanes of variables are read later
mod lower; // values and variables to registers
mod machine; // what they are lowered to
mod order; // how many parts are computed side by side

mod exec; // code that can be called

pub use crate::builder::Builder;
pub use crate::check::ProgramError;
pub use crate::code::{Code, Isa, Refusal, compile};
pub use crate::evaluate::{EvaluateError, Machine, evaluate};
pub use crate::exec::{ExecutableCode, Function};
pub use crate::program::{
    Binary, Comparison, Counter, Element, Index, Memory, Op, Place, Program, Range, Stmt, Type, Unary, Value,
    Variable,
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
debug_as_display!(EvaluateError, ProgramError, Refusal);
