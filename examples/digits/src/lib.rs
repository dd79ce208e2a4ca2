//! Trains a 64–128–10 network on 1,797 handwritten digits: forward pass, backward pass and update are one
//! compiled routine.
//!
//! The program `digits` trains and prints the accuracy on images that training did not see. The library has
//! its parts, for the tests, benchmarks and web pages that train the same network, and the whole program as
//! [`command_line::main`], for programs that link further backends.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod data;
pub mod network;
pub mod state;
pub mod streams;
pub mod train; // training on one stream
