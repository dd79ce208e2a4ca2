//! Tests of loading and running models, which are built as messages.

mod build; // models in a few lines
mod constants; // the same bits as of inputs
mod dimensions; // named dimensions as sizes
#[cfg(feature = "cli")]
mod fuzz_target; // hostile files
mod hostile; // small files that ask for much
mod images; // resampling, margins, pools
mod learned; // models of ai.onnx.ml
mod lists; // sequences
mod loading; // checks of a file
mod loops; // states and rows that are constants
#[cfg(feature = "cranelift")]
mod microsoft; // operators of com.microsoft with operands that do not fit
#[cfg(feature = "cranelift")]
mod node_tests; // operators, by the tests of another project
#[cfg(feature = "cli")]
mod onnx_run; // the program
mod positions; // orders, and elements by position
#[cfg(all(feature = "cranelift", feature = "cli"))]
mod quantized; // products of integers
mod running; // shapes, branches, loops
#[cfg(feature = "cranelift")]
mod threads; // calls from several threads
mod variants; // types, capitals and attributes that other libraries accept
