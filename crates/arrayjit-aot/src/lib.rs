#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod c_header; // the header for C
mod constants; // the values that ship with the code
mod error; // why a library cannot be made
mod library; // routines for a target
mod object_file; // the object file
#[cfg(feature = "onnx")]
mod onnx; // routines of ONNX models
mod rust_module; // the module for Rust
mod signature; // arrays, sizes and indices of a routine

tnode::debug_as_display!(AotError);

pub use codegen_cranelift::object::{EntryError, ObjectLevel, TargetError};
pub use constants::ConstantPlace;
pub use error::AotError;
pub use library::{CompiledProgram, Library, LibraryFiles, LibraryRoutine};
pub use signature::ArrayParameter;
