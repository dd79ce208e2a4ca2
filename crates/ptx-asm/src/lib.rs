//! Typed PTX programs: what NVIDIA's processors run, as data.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate kernels for NVIDIA's processors and want mistakes found before a driver, or nobody, reports them. You build a
//! [`Module`] of instructions whose registers have classes and whose control flow is a tree. [`check`] says what is wrong with it, [`print()`] makes the text that a
//! driver or `ptxas` takes; the crate `ptx-sim` runs it where there is neither. The crate knows nothing of arrays, needs no SDK, and talks to no driver.
#![forbid(unsafe_code)]

mod builder; // writes kernels
mod check; // what makes a program one
mod inst; // what a thread can do
mod print; // programs as text
mod program; // kernels

pub use crate::builder::Builder;
pub use crate::check::{ProgramError, check};
pub use crate::inst::{Atomic, Binary, Cmp, Inst, Mma, Rounding, Scope, Shuffle, Ternary, Ty, Unary, Vote};
pub use crate::print::print;
pub use crate::program::{
    Array, Base, Block, Class, Guard, Kernel, Module, Operand, Place, Reg, Regs, Space, Special, Stmt, Target,
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
debug_as_display!(ProgramError);
