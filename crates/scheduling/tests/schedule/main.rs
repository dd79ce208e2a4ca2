//! The scheduler on nests written by hand, on the corpus and on random routines: every step keeps what it promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common; // checks a routine after every step
mod corpus;
mod fma;
mod gpu;
mod nests;
mod programs;
mod random;
mod random_nests;
