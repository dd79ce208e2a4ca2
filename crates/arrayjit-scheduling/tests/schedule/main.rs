//! The scheduler on handwritten nests, on the corpus and on random routines. Every pass is checked.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod corpus;
mod few_rows;
mod fma;
mod gpu;
mod legalize;
mod lifetimes;
mod masks;
mod nests;
mod programs;
mod random;
mod random_nests;
mod row_blocks;
mod triangles;
