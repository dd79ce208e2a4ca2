//! Tests of loading and running models, which are built as messages.

mod build; // models in a few lines
#[cfg(feature = "cli")]
mod fuzz_target; // hostile files
mod loading; // checks of a file
#[cfg(feature = "cranelift")]
mod node_tests; // operators, by the tests of another project
#[cfg(feature = "cli")]
mod onnx_run; // the program
mod running; // shapes, branches, loops
#[cfg(feature = "cranelift")]
mod threads; // calls from several threads
