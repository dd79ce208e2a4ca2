//! Compiles loops around straight-line vector code to x86-64 machine code.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate numeric kernels at run time, know their loops and shapes, and want 256-bit (or 512-bit) vector code tens of
//! microseconds later. You write a [`Program`]: loops with constant bounds, loads and stores at affine addresses, vector operations on values of any number of
//! lanes, and variables that loops carry. What comes out is one position-independent function. The crate knows nothing of arrays, types
//! of other compilers, or threads.

mod builder; // writes programs
mod program; // what is compiled

mod check; // what makes a program one
mod display; // programs as text
mod evaluate; // what programs mean

mod address; // pointers
mod allocate; // machine registers
mod avx2; // the instructions
mod code; // the stages below, in order
mod emit;
mod live; // which lanes of variables are read later
mod lower; // values and variables to registers
mod machine; // what they are lowered to
mod order; // how many parts are computed side by side // bytes

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
