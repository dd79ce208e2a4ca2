//! Small simulations and models on `arrayjit-tensor`. The program `models` runs each by its name and writes
//! pictures; the tests run shorter versions.
//!
//! Simulations need no training: [`heat`], [`mandelbrot`], [`fft`].
#![forbid(unsafe_code)]

pub mod command_line; // the program
pub mod fft; // a Fourier transform in stages
pub mod heat; // the heat equation on a grid
pub mod mandelbrot; // iterations of z² + c
pub mod picture; // PNG files
