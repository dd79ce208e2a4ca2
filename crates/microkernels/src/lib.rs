//! Contractions: matrix products, batched, transposed and strided, convolutions, with fused epilogues.
//!
//! # Should I be using this crate?
//!
//! Use it if you know the shapes of your products before you run them, and run them more than once: a [`Contraction`] says what is multiplied, where it lies,
//! and what becomes of each sum; planning it takes microseconds. It gives the same bits whatever the number of threads, the sizes
//! of the caches and the machine's vectors: each sum is taken in the order of the depth, by fused multiplication and addition.

mod blocks; // how a product is cut
mod contraction; // what is computed
mod epilogue; // code for what becomes of sums
mod machine; // what runs it
mod output; // where sums begin and go
mod pack; // factors copied to where tiles read them
mod plan; // everything decided
mod product; // loops around tiles
mod real; // elements and vector instructions
mod side; // factors, checked
mod tile; // rows and columns summed in registers

pub use crate::contraction::{
    Bounds, COLUMN, Contraction, Factor, LANES, Offsets, ROW, SUM, Split, batch_index,
};
pub use crate::machine::Machine;
pub use crate::plan::Plan;
