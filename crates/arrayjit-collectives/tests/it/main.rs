//! Groups of threads, compared with sums over streams and with a model.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod buckets;
mod failures;
mod local;
#[path = "../program/mod.rs"]
mod program;
mod random_split;
