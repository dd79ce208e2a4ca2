//! Kernel calls of routines as data: nodes, source lines, work, and the methods that compile them.

mod call; // a kernel call as data
mod describe; // from a schedule to descriptions
mod statements; // the statements that a call computes

pub use codegen_core::{CompilationMethod, Cost};

pub use self::{
    call::{CallDescription, Operand, OperandMemory},
    statements::Statement,
};
pub(crate) use self::{describe::CallsOf, statements::Statements};
