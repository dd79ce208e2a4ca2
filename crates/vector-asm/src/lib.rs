#![doc = include_str!("../README.md")]
mod builder; // builds programs
mod program; // the program representation

mod display; // programs as text
mod processor; // instruction sets, and those that this processor has

#[cfg(feature = "assembler")]
mod check; // verifies programs

#[cfg(feature = "assembler")]
mod address; // general registers for pointers
#[cfg(feature = "assembler")]
mod allocate; // vector registers by linear scan
#[cfg(feature = "assembler")]
mod arm64; // the table and the encoding of ARM64
#[cfg(feature = "assembler")]
mod code; // the compiler's stages, in order
#[cfg(feature = "assembler")]
mod emit; // machine code of functions
#[cfg(feature = "assembler")]
mod live; // liveness of variables by lane
#[cfg(feature = "assembler")]
mod lower; // programs to machine instructions
#[cfg(feature = "assembler")]
mod machine; // machine instructions before allocation
#[cfg(feature = "assembler")]
mod op; // operations of machine instructions
#[cfg(feature = "assembler")]
mod order; // instruction order by register pressure
#[cfg(feature = "assembler")]
mod x86; // the tables and the encoding of x86-64

#[cfg(feature = "assembler")]
mod exec; // loads code and makes it callable

pub use crate::builder::VectorBuilder;
#[cfg(feature = "assembler")]
pub use crate::check::VectorProgramError;
#[cfg(feature = "assembler")]
pub use crate::code::{VectorCode, VectorCompileError, compile};
#[cfg(feature = "assembler")]
pub use crate::exec::ExecutableCode;
#[cfg(feature = "assembler")]
pub use crate::lower::nibble_lookups;
pub use crate::processor::{Isa, VectorFunction};
pub use crate::program::{
    Binary, Comparison, Counter, CounterSum, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
};

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
#[cfg(feature = "assembler")]
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
#[cfg(feature = "assembler")]
debug_as_display!(VectorProgramError, VectorCompileError);
