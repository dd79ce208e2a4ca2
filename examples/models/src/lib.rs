//! Small simulations and models on `arrayjit-tensor`. The program `models` runs each by its name and writes
//! pictures; the tests run shorter versions.
//!
//! Simulations need no training: [`heat`], [`mandelbrot`], [`fft`]. Models are trained by a session: [`mlp`],
//! [`lenet`], [`resnet`], [`char_gpt`].
#![forbid(unsafe_code)]

pub mod char_gpt;
pub mod command_line;
pub mod fft;
pub mod heat;
pub mod lenet; // convolutions on digits
pub mod mandelbrot;
pub mod mlp;
pub mod picture;
pub mod ranks; // threads or processes that train together
pub mod resnet;

mod batches;
