//! Compiles scheduled IR to shaders: WGSL for WebGPU, and from the same module SPIR-V, Metal and HLSL.
#![forbid(unsafe_code)]
