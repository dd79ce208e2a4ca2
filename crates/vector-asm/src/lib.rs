#![doc = include_str!("../README.md")]
mod builder; // builds programs
mod program; // the program representation

mod check; // verifies programs
mod display; // programs as text
mod evaluate; // the reference evaluator

mod address; // general registers for pointers
mod allocate; // vector registers by linear scan
mod arm64; // the table and the encoding of ARM64
mod code; // the compiler's stages, in order
mod emit; // machine code of functions
mod live; // liveness of variables by lane
mod lower; // programs to machine instructions
mod machine; // machine instructions before allocation
mod op; // operations of machine instructions
mod order; // instruction order by register pressure
mod x86; // the tables and the encoding of x86-64

mod processor; // what this processor has

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
