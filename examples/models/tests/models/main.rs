//! Shorter versions of the examples, against closed forms and loops in Rust.

mod simulations;
