//! Tests of graphs, modules and training.

mod bad_input;
mod gradients;
mod operations;
