//! Compiles scheduled IR to shaders: WGSL for WebGPU, and from the same module SPIR-V, Metal and HLSL.
//!
//! # Should I be using this crate?
//!
//! It is the codegen behind the GPU backends of `arrayjit`: use it directly to look at the shader of a kernel, or to put kernels
//! where there is no `arrayjit`, such as a page. It knows no device: [`Caps`](codegen_core::Caps) say what there is.
//!
//! # Example
//!
//! ```
//! use codegen_core::{Codegen, Payload};
//! use scheduling::{ScheduleOptions, schedule};
//! use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
//!
//! let routine = lowered_ir::text::parse(
//!     "routine @double fast {
//!        node %0 \"x\" f32[1000] on_device
//!        node %1 \"y\" f32[1000] on_device
//!        for i0 in 0..1000 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let codegen = wgsl(baseline_caps(), WgslOptions::default());
//! let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default())?;
//! let artifact = codegen.compile(&scheduled)?;
//! let Payload::Shader(shaders) = artifact.payload() else { return Err("no shaders".into()) };
//! // Both parameters lie in the first slab.
//! let shader = shaders.shader(0, &[0, 0])?;
//! assert!(shader.wgsl.contains("@compute") && shader.groups > 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * A verified, legalised kernel gives a module that naga's validator accepts with the capabilities of the target alone, or
//!   [`Unsupported`](codegen_core::CodegenError::Unsupported), which names what is refused and why. Nothing panics.
//! * Integers, conversions, selections and moves compute what [`lowered_ir::interp`] computes, bit for bit: what the shading
//!   languages leave open (conversions that do not fit, `max` of NaN, remainders of floats) is written out. Constants are computed
//!   before a compiler sees them, since those refuse constants that overflow.
//! * Each thread stores its own elements and nothing beside them: narrow elements by atomic operations on their own bits.
//! * All threads of a workgroup reach every barrier: control flow around barriers depends on constants, symbols and the workgroup's number alone.
//! * A kernel binds the table and each slab once, however many parameters it has.
//!
//! # Floats
//!
//! The languages let a device contract `a * b + c`, evaluate `fma` as two operations, divide with an error of 2.5 ulp and flush subnormal numbers; so
//! results on floats are within bounds, not bit-equal. Transcendental functions are the polynomials of [`lowered_ir::math`], not the
//! device's own, whose errors nobody bounds. `sin` and `cos` of `f32` are in `f32` and `i32` alone, where all angles are reduced by
//! integers; `pow` computes in `f64` where the device has it. Compilers of shaders take floats for real numbers: sums that a term is
//! taken from again are hidden from them, and so are multiples of one number by two constants, and a maximum that may meet NaN.
//!
//! What comes of it on the adapter at hand is printed by the tests in `crates/arrayjit/tests/wgpu/accuracy.rs`, which assert 4 ulp (7 for
//! `recip_sqrt`) over the whole range of each function.
//!
//! # Features
//!
//! `spirv`, `msl` and `hlsl` (all on by default) add [`Rendered::spirv`], [`Rendered::msl`] and [`Rendered::hlsl`]. Metal and HLSL refuse
//! kernels with `f64`.
#![forbid(unsafe_code)]

mod options; // what may be chosen
mod refusal; // what is not supported

mod builder; // naga's IR, and nothing else of naga's
mod emit; // loop IR -> module

mod module; // the codegen
mod text; // validation and text

pub use crate::module::{Rendered, Wgsl, wgsl};
pub use crate::options::{WgslOptions, baseline_caps};
