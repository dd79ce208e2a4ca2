//! Compiles scheduled loop IR to PTX, the virtual instruction set of NVIDIA GPUs.
//!
//! # Should I be using this crate?
//!
//! It is the codegen behind the CUDA backend of `arrayjit`. Use it directly to look at the code of a kernel,
//! or to generate kernels for another runtime. It needs no device and no SDK.
//!
//! # Example
//!
//! ```
//! use codegen_core::{Codegen, Payload};
//! use scheduling::{ScheduleOptions, schedule};
//! use codegen_ptx::{PtxOptions, Target, ptx};
//!
//! let routine = codegen_core::text::parse(
//!     "routine @double fast {
//!        node %0 \"x\" f32[1000] on_device
//!        node %1 \"y\" f32[1000] on_device
//!        for i0 in 0..1000 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let codegen = ptx(Target::Sm80, PtxOptions::default());
//! let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default())?;
//! let artifact = codegen.compile(&scheduled)?;
//! let Payload::Ptx(module) = artifact.payload() else { return Err("no PTX".into()) };
//! assert!(module.text().contains(".entry") && module.launches()[0].threads >= 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * A verified, legalised kernel compiles to a program that [`ptx_asm::check`] accepts, or fails with
//!   [`Unsupported`](codegen_core::CodegenError::Unsupported), which names the construct and the reason.
//!   Nothing panics.
//! * A program computes the same values as [`codegen_core::interp`], bit for bit except for the bits of NaNs:
//!   arithmetic rounds to nearest, nothing is contracted, and transcendental functions are the polynomials of
//!   [`codegen_core::math`]. [`PtxOptions`] describes the exceptions, all in class `Fast`: tensor cores add
//!   in an order of their own; on request, operands are truncated to `tf32`, and functions are approximated.
//! * A program accesses memory where the kernel's IR does, with one exception: adjacent elements that an
//!   unrolled loop reads are read at once.
//! * All threads of a block reach every barrier.
#![deny(unsafe_code)]

mod options; // options and capabilities

mod unroll; // unrolling of innermost loops
mod warp_reductions; // reductions by warp shuffles

mod builder; // instructions with shared index arithmetic
mod emit; // loop IR -> instructions
mod tensor_cores; // matmuls on tensor cores

mod module; // the codegen
mod vouch; // artifacts: the crate's unsafe code

pub use crate::module::{Ptx, Rendered, ptx};
pub use crate::options::{PtxOptions, TensorCoreInstructions, ptx_caps};
pub use ptx_asm::Target;
