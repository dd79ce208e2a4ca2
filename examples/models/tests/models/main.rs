//! Shorter versions of the examples, against closed forms, loops in Rust and stated figures.

mod simulations;
mod training;
