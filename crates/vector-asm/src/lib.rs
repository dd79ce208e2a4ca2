//! Compiles loops around straight-line vector code to x86-64 machine code.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate numeric kernels at run time, know their loops and shapes, and want 256-bit (or 512-bit) vector code tens of
//! microseconds later. You write a [`Program`]: loops with constant bounds, loads and stores at affine addresses, vector operations on values of any number of
//! lanes, and variables that loops carry. What comes out is one position-independent function. The crate knows nothing of arrays, types
//! of other compilers, or threads.

mod program; // what is compiled

pub use crate::program::{
    Binary, Comparison, Counter, Element, Index, Memory, Op, Place, Program, Range, Stmt, Type, Unary, Value,
    Variable,
};
