//! Tests of graphs, modules and training.

mod backends;
mod bad_input;
mod compiled;
mod gradients;
mod operations;
mod optimizers;
