//! Indexing, assignments and their text, the loop IR with its `.lir` text, verifier, passes and interpreter.
#![forbid(unsafe_code)]

pub mod assign;
mod caret;
pub mod eval;
pub mod indexing;
pub mod interp;
pub mod ir;
pub mod lower;
pub mod math;
pub mod passes;
pub mod pipeline;
pub mod text;
pub mod verify;
