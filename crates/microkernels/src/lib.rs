//! Contractions: matrix products, batched, transposed and strided, convolutions, with fused epilogues.
//!
//! # Should I be using this crate?
//!
//! Use it if you know the shapes of your products before you run them, and run them more than once: a [`Contraction`] says what is multiplied, where it lies,
//! and what becomes of each sum; planning it takes microseconds. It gives the same bits whatever the number of threads, the sizes
//! of the caches and the machine's vectors: each sum is taken in the order of the depth, by fused multiplication and addition.
//!
//! For single products of slices there is [`Matmul`]. If you want the fastest product of huge matrices on many cores, and not
//! the same bits everywhere, a BLAS library may be a better choice.
//!
//! # What a plan does
//!
//! [`Plan`] runs on a caller's thread, over a part of the outputs that the caller chose ([`Split`]), in scratch memory that the caller gives. It
//! neither allocates nor waits. It reads factors where they are if they are small, and packs blocks of them for the caches otherwise, whether
//! they are transposed, strided, in offset tables with [`Bounds`] (convolutions) or in half precision. What becomes of the sums is any
//! straight-line program of `vector-asm`. It is computed on the sums while they are in registers, by tiles generated for the plan, or, if it is long, while they are
//! in the first-level cache.

#[cfg(target_arch = "x86_64")]
mod blocks; // how a product is cut
mod contraction; // what is computed
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere; // machines without plans
#[cfg(target_arch = "x86_64")]
mod epilogue; // code for what becomes of sums
#[cfg(target_arch = "x86_64")]
mod fused; // tiles generated with it
mod machine; // what runs it
mod matmul; // products of slices
#[cfg(target_arch = "x86_64")]
mod output; // where sums begin and go
#[cfg(target_arch = "x86_64")]
mod pack; // factors copied to where tiles read them
#[cfg(target_arch = "x86_64")]
mod plan; // everything decided
#[cfg(target_arch = "x86_64")]
mod product; // loops around tiles
#[cfg(target_arch = "x86_64")]
mod real; // elements and vector instructions
#[cfg(target_arch = "x86_64")]
mod side; // factors, checked
#[cfg(target_arch = "x86_64")]
mod template; // epilogues as statements of code
#[cfg(target_arch = "x86_64")]
mod tile; // rows and columns summed in registers

#[cfg(not(target_arch = "x86_64"))]
use crate::elsewhere as plan;

pub use crate::contraction::{
    Bounds, COLUMN, Contraction, Factor, LANES, Offsets, ROW, SUM, Split, batch_index,
};
pub use crate::machine::Machine;
pub use crate::matmul::{Matmul, MatmulError, MatmulShape, Scalar};
pub use crate::plan::Plan;

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
debug_as_display!(MatmulError);
