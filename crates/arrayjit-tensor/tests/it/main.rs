//! Tests of graphs, modules and training.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod accumulation;
mod backends;
mod bad_input;
mod checkpoints;
mod compiled;
mod custom_vjp;
mod derivatives;
mod gradients;
mod half;
mod hostile;
mod lora;
mod loss_scale;
mod modules;
mod non_finite;
mod operations;
mod optimizers;
mod quantized;
mod ranks;
mod row_batches;
mod scans;
mod sessions;
mod sizes;
mod texts;
mod threads;
mod torch;
mod torch_losses;
mod torch_models;
mod torch_modules;
mod torch_optimizers;
mod torch_training;
mod vmap;
