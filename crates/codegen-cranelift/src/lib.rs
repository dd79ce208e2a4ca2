//! Compiles scheduled IR to host machine code: GEMM plans of `microkernels`, vector programs, and Cranelift's
//! code.
//!
//! # Should I be using this crate?
//!
//! It is the code generator behind the CPU backends of `arrayjit`. Use it directly to compile
//! [`Kernel`](codegen_core::Kernel)s, or to print the code of one ([`listing`]). A kernel of loops with
//! constant bounds around straight-line code becomes a vector program of 256 bits if the CPU has AVX2.
//! Cranelift compiles all other kernels, and all kernels on other CPUs, to scalar code or code with 128-bit
//! vectors ([`VectorWidth`]).
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
//! let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default())?;
//! let artifact = codegen.compile(&scheduled)?;
//! assert_eq!(artifact.kernels().len(), 1);
//! assert!(codegen.listing(&scheduled.kernels()[0])?.source.contains("fadd"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * A verified, legalised kernel gives `Ok` or [`Unsupported`](codegen_core::CodegenError::Unsupported),
//!   which names the operation. A panic in Cranelift is reported as
//!   [`Failed`](codegen_core::CodegenError::Failed).
//! * The code computes the same bits as [`lowered_ir::interp`], except for the payload and sign of NaN. It
//!   does not trap, whatever the data.
//! * Code is freed with the last clone of its [`HostModule`](codegen_core::host::HostModule).
//!
//! # Environment
//!
//! `ARRAYJIT_PERF_MAP=1` writes a symbol map for `perf`; any other value is the path of the file to write.
#![deny(unsafe_code)]

mod options; // options of the generated code

mod choice; // choices between forms of code with the same bits

mod caps; // the capabilities of this CPU
mod support; // supported operations by type

mod render; // kernels to checked kernels

mod vector; // loop IR to vector programs

mod composite; // kernels with contractions as GEMM plans and other parts

mod emit; // loop IR to CLIF
mod runtime_functions; // functions that kernels call at run time

mod compile; // kernels to machine code, in parallel
mod disassemble; // instructions as text
mod jit; // loading of code; with `composite::run`, the crate's unsafe code
mod perf_map; // names of kernels for profilers
mod relocate; // relocations of Cranelift's code

pub use crate::caps::host_caps;
pub use crate::compile::{Cranelift, CraneliftCompiler, cranelift, cranelift_with, listing};
pub use crate::options::{CraneliftOptions, VectorWidth};
pub use crate::render::{CheckedKernel, CraneliftRenderer};
