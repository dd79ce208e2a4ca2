//! Compiles scheduled IR to host machine code through Cranelift.
//!
//! # Should I be using this crate?
//!
//! It is the codegen behind the CPU backends of `arrayjit`: use it directly to compile [`Kernel`](codegen_core::Kernel)s
//! yourself, or to look at the code of one ([`listing`]). It compiles every legalised kernel by itself, scalar or with 128-bit
//! vectors, on the architectures Cranelift has (x86-64 is the one measured).
//!
//! # Promises
//!
//! * A verified, legalised kernel gives `Ok` or [`CodegenError::Unsupported`], which names the operation; a panic in Cranelift
//!   is reported as [`CodegenError::Failed`].
//! * The code computes what [`lowered_ir::interp`] computes, bit for bit but for which NaN an operation yields; it does not
//!   trap, whatever the data.
//! * Code is freed with the last clone of its [`HostModule`](codegen_core::host::HostModule).
//!
//! # Environment
//!
//! `ARRAYJIT_PERF_MAP=1` writes a symbol map for `perf`; another value is the file to write to.
#![deny(unsafe_code)]

mod caps; // what this machine can do
mod compile; // kernels -> code, in parallel
mod emit; // loop IR -> CLIF
mod helpers; // functions that kernels call
mod jit; // code in memory
mod options;
mod perf_map;
mod render; // kernel -> checked kernel
mod support; // (operation, type) pairs that are compiled

use codegen_core::CodegenError;
use codegen_core::contract::Pipeline;

pub use crate::caps::host_caps;
pub use crate::compile::{CraneliftCompiler, listing};
pub use crate::options::CraneliftOptions;
pub use crate::render::{CheckedKernel, CraneliftRenderer};

/// The codegen for this machine.
///
/// # Errors
///
/// [`CodegenError::Failed`] where Cranelift does not know the machine.
pub fn cranelift(
    options: CraneliftOptions,
) -> Result<Pipeline<CraneliftRenderer, CraneliftCompiler>, CodegenError> {
    compile::check_target(&options)?;
    Ok(Pipeline::new(support::NAME, host_caps(), CraneliftRenderer, CraneliftCompiler, options))
}
