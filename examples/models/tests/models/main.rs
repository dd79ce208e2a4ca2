//! Shorter versions of the examples, against closed forms, loops in Rust and stated figures.

mod simulations;
#[path = "../../../../crates/arrayjit-tensor/tests/it/torch.rs"]
mod torch;
mod torch_examples;
#[path = "../../../../crates/arrayjit-tensor/tests/it/torch_training.rs"]
mod torch_training;
mod training;
