//! The scheduler on nests written by hand and on the corpus: every step keeps what it promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common; // checks a routine after every step
mod corpus;
mod nests;
