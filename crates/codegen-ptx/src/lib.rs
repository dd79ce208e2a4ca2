//! Compiles scheduled IR to PTX, the language of NVIDIA's processors.
//!
//! # Should I be using this crate?
//!
//! It is the codegen behind the CUDA backend of `arrayjit`: use it directly to look at what a kernel becomes, or to put kernels where
//! there is no `arrayjit`. It knows no device and needs no SDK.
//!
//! # Example
//!
//! ```
//! use codegen_core::{Codegen, Payload};
//! use scheduling::{ScheduleOptions, schedule};
//! use codegen_ptx::{PtxOptions, Target, ptx};
//!
//! let routine = lowered_ir::text::parse(
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
//! * A verified, legalised kernel gives a program that [`ptx_asm::check`] accepts, or [`Unsupported`](codegen_core::CodegenError::Unsupported),
//!   which names what is refused and why. Nothing panics.
//! * A program computes what [`lowered_ir::interp`] computes of the kernel, bit for bit, but for which NaN an operation gives: arithmetic rounds to
//!   nearest, nothing is contracted, and transcendental functions are the polynomials of [`lowered_ir::math`]. [`PtxOptions`] has the exceptions, all of class
//!   `Fast`: tensor cores add in an order of their own, and on request factors lose bits, and functions are approximate.
//! * Memory is touched where the kernel's IR touches it, with one exception: neighbours that a repeated loop reads one after another are read at once.
//! * All threads of a block reach every barrier.
#![deny(unsafe_code)]

mod options; // what may be chosen
mod unsupported; // constructs that the codegen rejects

mod unroll;
mod warp_reductions; // reductions by warp shuffles // several iterations at a time

mod builder; // instructions under construction
mod emit;
mod tensor_cores; // matrix multiplications on tensor cores // loop IR -> instructions

mod module; // the codegen
mod vouch; // programs for devices: the crate's unsafe code

pub use crate::module::{Ptx, Rendered, ptx};
pub use crate::options::{PtxOptions, TensorCores, ptx_caps};
pub use ptx_asm::Target;
