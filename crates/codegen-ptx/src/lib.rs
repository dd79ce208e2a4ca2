//! Compiles scheduled IR to PTX, the language of NVIDIA's processors.
#![forbid(unsafe_code)]

mod cores; // products of matrices on tensor cores
