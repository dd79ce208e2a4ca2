//! Tests of graphs, modules and training.

mod bad_input;
mod compiled;
mod gradients;
mod operations;
