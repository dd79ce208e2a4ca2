//! Models of generated weights, compared with what transformers computes of the same weights.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

mod batch;
mod chat;
mod embeddings;
mod files;
mod fuzz_target;
mod generated;
mod gguf;
mod language_models;
mod memory;
mod not_finite;
mod options;
mod sampling;
mod serving;
mod speech;
mod tools;
