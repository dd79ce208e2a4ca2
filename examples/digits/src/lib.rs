//! Trains a 64–128–10 network on 1,797 handwritten digits: forward pass, backward pass and update are one
//! compiled routine.
//!
//! The program `digits` trains and prints the accuracy on images that training did not see. The library has
//! its parts, for the tests, benchmarks and web pages that train the same network, and the whole program as
//! [`command_line::main`], for programs that link further backends.
#![forbid(unsafe_code)]

pub mod command_line; // the program
pub mod data; // the images, and their split into training and test sets
pub mod network; // the nodes, and training and evaluation as assignment text
pub mod ranks; // training on several ranks
pub mod state; // the nodes' initial values
pub mod streams; // training on several streams
pub mod train; // training on one stream
