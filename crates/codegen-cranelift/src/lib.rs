//! Compiles scheduled IR to host machine code: vector programs by `vector-asm`, everything by Cranelift.
//!
//! # Should I be using this crate?
//!
//! It is the codegen behind the CPU backends of `arrayjit`: use it directly to compile [`Kernel`](codegen_core::Kernel)s
//! yourself, or to look at the code of one ([`listing`]). Kernels that are loops of constant bounds around straight-line code become
//! vector programs of 256 bits where the machine has AVX2; all others, and all on other machines, are compiled by Cranelift, scalar or
//! with 128-bit vectors ([`VectorWidth`]).
//!
//! # Example
//!
//! ```
//! use codegen_core::Codegen;
//! use scheduling::{ScheduleOptions, schedule};
//! use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift};
//!
//! let routine = lowered_ir::text::parse(
//!     "routine @double fast {
//!        node %0 \"x\" f32[4] on_device
//!        node %1 \"y\" f32[4] on_device
//!        for i0 in 0..4 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let options = CraneliftOptions { vector: VectorWidth::Bits128, ..CraneliftOptions::default() };
//! let codegen = cranelift(options)?;
//! let scheduled = schedule(&routine, codegen.caps(), &ScheduleOptions::default())?;
//! let artifact = codegen.compile(&scheduled)?;
//! assert_eq!(artifact.kernels().len(), 1);
//! assert!(codegen.listing(&scheduled.kernels()[0])?.source.contains("fadd"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * A verified, legalised kernel gives `Ok` or [`Unsupported`](codegen_core::CodegenError::Unsupported), which names the
//!   operation; a panic in Cranelift is reported as [`Failed`](codegen_core::CodegenError::Failed).
//! * The code computes what [`lowered_ir::interp`] computes, bit for bit but for which NaN an operation yields; it does not
//!   trap, whatever the data.
//! * Code is freed with the last clone of its [`HostModule`](codegen_core::host::HostModule).
//!
//! # Environment
//!
//! `ARRAYJIT_PERF_MAP=1` writes a symbol map for `perf`; another value is the file to write to.
#![deny(unsafe_code)]

mod options; // what may be chosen

mod caps; // what this machine can do
mod support; // (operation, type) pairs that are compiled

mod render; // kernel -> checked kernel

mod vector; // loop IR -> vector programs

mod contract; // kernels with contractions -> steps

mod emit; // loop IR -> CLIF
mod helpers; // functions that kernels call

mod compile; // kernels -> code, in parallel
mod disassemble; // instructions as text
mod jit; // code to functions: the crate's unsafe code
mod perf_map;
mod relocate; // Cranelift's code, to be loaded anywhere // names of kernels for profilers

pub use crate::caps::host_caps;
pub use crate::compile::{CraneliftCompiler, cranelift, listing};
pub use crate::options::{CraneliftOptions, VectorWidth};
pub use crate::render::{CheckedKernel, CraneliftRenderer};
