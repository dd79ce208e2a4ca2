#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder; // writes the body of a kernel
mod check; // the rules that a program must keep
mod inst;
mod print;
mod program; // programs, kernels, statements, operands

pub use crate::builder::PtxBuilder;
pub use crate::check::{PtxError, check};
pub use crate::inst::{
    AtomicOp, CmpOp, Inst, MmaShape, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, RoundingMode, ShuffleMode, Ty,
};
pub use crate::print::print;
pub use crate::program::{
    AddressBase, AddressOperand, ArrayDecl, GuardPredicate, PtxKernel, PtxOperand, PtxProgram, PtxStmt, Reg,
    RegClass, Regs, SpecialReg, StateSpace, StmtList, Target,
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
debug_as_display!(PtxError);
