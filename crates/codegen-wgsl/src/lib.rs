//! Compiles scheduled IR to compute shaders: a naga module, and from it WGSL for WebGPU, SPIR-V, Metal and
//! HLSL.
//!
//! # Should I be using this crate?
//!
//! It is the codegen of the GPU backends of `arrayjit`. Use it directly to inspect the shader of a kernel, or
//! to run kernels where `arrayjit` is not available, such as in a web page. It knows no device: the caller's
//! [`Caps`](codegen_core::Caps) describe the target.
//!
//! # Example
//!
//! ```
//! use codegen_core::{Codegen, Payload};
//! use scheduling::{ScheduleOptions, schedule};
//! use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
//!
//! let routine = codegen_core::text::parse(
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
//! // Both parameters are in the first slab.
//! let shader = shaders.shader(0, &[0, 0])?;
//! assert!(shader.wgsl.contains("@compute") && shader.groups > 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * A verified, legalised kernel compiles to a module that naga's validator accepts with the capabilities of
//!   the target alone, or to [`Unsupported`](codegen_core::CodegenError::Unsupported), which names the
//!   operation and the reason. Nothing panics.
//! * Integers, conversions, selections and moves compute the same bits as [`codegen_core::interp`]. Cases
//!   that the shading languages leave undefined (conversions out of range, `max` of NaN, remainders of
//!   floats) are expanded into defined operations. Constants are folded here, because shader compilers reject
//!   constants that overflow.
//! * Each thread writes its own elements only. It writes elements narrower than a word by atomic operations
//!   on their bits.
//! * All threads of a workgroup reach every barrier: control flow around barriers depends only on constants,
//!   symbols and the workgroup's number.
//! * A kernel binds the table and each slab once, whatever its number of parameters.
//!
//! # Floats
//!
//! The shading languages permit a device to contract `a * b + c`, to evaluate `fma` as two operations, to
//! divide with an error of 2.5 ulp, and to flush subnormal numbers. Therefore results on floats are within
//! bounds, not bit-equal. Transcendental functions are the polynomials of [`codegen_core::math`], not the
//! device's own functions, whose errors have no guaranteed bounds. `sin` and `cos` of `f32` use only `f32`
//! and `i32`: integer arithmetic reduces angles of any size. `pow` computes in `f64` where the device has it.
//! Shader compilers apply rules of real arithmetic to floats. The emitter therefore hides three patterns from
//! them: a sum from which one of its terms is subtracted, two multiples of one number by constants, and a
//! maximum whose operand may be NaN.
//!
//! The tests in `crates/arrayjit/tests/wgpu/accuracy.rs` print the measured errors on the adapter at hand,
//! and assert 4 ulp (7 for `recip_sqrt`) over the whole range of each function.
//!
//! # Features
//!
//! `spirv`, `msl` and `hlsl` (all on by default) add [`Rendered::spirv`], [`Rendered::msl`] and
//! [`Rendered::hlsl`]. Metal and HLSL do not support kernels with `f64`.
#![forbid(unsafe_code)]

mod options; // the codegen's options

mod builder; // writes naga's IR; no other module does
mod emit; // loop IR -> module

mod module; // the codegen
mod text; // validation, and writing texts

pub use crate::module::{Rendered, Wgsl, wgsl};
pub use crate::options::{WgslOptions, baseline_caps};
