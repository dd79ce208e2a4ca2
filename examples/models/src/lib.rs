//! Small simulations and models on `arrayjit-tensor`. The program `models` runs each by its name and writes
//! pictures; the tests run shorter versions.
//!
//! Simulations need no training: [`heat`], [`mandelbrot`], [`fft`]. Models are trained by a session: [`mlp`],
//! [`lenet`], [`resnet`], [`char_gpt`].
#![forbid(unsafe_code)]

pub mod char_gpt; // a GPT on a text
pub mod command_line; // the program
pub mod fft; // a Fourier transform in stages
pub mod heat; // the heat equation on a grid
pub mod lenet; // convolutions on digits
pub mod mandelbrot; // iterations of z² + c
pub mod mlp; // two moons
pub mod picture; // PNG files
pub mod resnet; // residual blocks on made pictures

mod batches; // training sets in shuffled batches
