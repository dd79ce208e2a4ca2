//! Counter-based random numbers.
//!
//! A number is a pure function of a key and a counter: any element of any fill can be computed alone, in any
//! order, by any number of threads, with the same bits. Nothing here has state. The rules below define every
//! bit of uniforms, so that other implementations can reproduce them; a program chooses a seed, further
//! numbers of the key, and [`Scheme::Standard`] or a compatible scheme.
//!
//! **Sample.** A sample is the `u32x4` that Threefry-4x32-20 gives for a key and a counter; words are written
//! lane 0 first.
//!
//! **Key.** A seed `s` of 64 bits gives the key `[s mod 2³², s / 2³², 0, 0]`. Each further number `n` (a
//! constant, such as a node's, or a static symbol, such as the step) then replaces the key by the sample of
//! that key at `[n mod 2³², n / 2³², 0, 2³¹]`, `n` modulo 2⁶⁴.
//!
//! **Counter.** A fill divides the last axis into chunks of [`Distribution::values_per_sample`] elements. The
//! elements in row `r` (the row-major number of all indices but the last) and chunk `c` get the values 0, 1,
//! … of the sample at `[c mod 2³², r mod 2³², r / 2³², c / 2³²]`. If the last chunk is not full, the last
//! values of its sample are not used. An element of rank 0 is in row 0, chunk 0. A number for a single
//! element is value 0 of the sample at `[i₀, i₁, i₂, i₃]`: the index arguments modulo 2³², and 0 for missing
//! ones.
//!
//! **Values** of a sample: [`uniform`], [`bits`] and [`normal`].
//!
//! Uniforms and bits are the same everywhere. Normals are computed with `log`, `sqrt`, `sin` and `cos` of the
//! IR, hence they are the same on all targets that compute these by [`crate::math`].

mod cipher;
mod key;
mod value;

pub use cipher::{
    Generator, PARITY, THREEFRY, THREEFRY_CRYPTO, THREEFRY_LIGHT, WordAlgebra, Words, bits_of, words_of,
};
pub use key::{KeyNumber, MAX_CELL, Scheme};
pub use value::{Distribution, bits, normal, uniform, value};
