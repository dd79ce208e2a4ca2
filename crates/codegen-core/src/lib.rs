//! The contract between lowered IR, code generators and devices: capabilities, kernels, artifacts, ABI.
//!
//! This crate owns every type that a code generator hands to a device, so that neither depends on the other.
//!
//! # Should I be using this crate?
//!
//! To write a code generator: yes, implement [`Renderer`] and [`Compiler`] (or [`Codegen`]) and let `codegen-testkit` judge it.
//! To write a device, `device-runtime` tells what it is given from here. To compute something, use `arrayjit`.
//!
//! # Example
//!
//! An optimised routine becomes kernels for a target, and those an artifact:
//!
//! ```
//! use codegen_core::{Codegen, Interpreted};
//! use scheduling::{ScheduleOptions, schedule};
//!
//! let routine = lowered_ir::text::parse(
//!     "routine @double strict {
//!        node %0 \"x\" f32[4] on_device
//!        node %1 \"y\" f32[4] on_device
//!        for i0 in 0..4 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let codegen = Interpreted::new();
//! let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default())?;
//! let artifact = codegen.compile(&scheduled)?;
//! assert_eq!(artifact.kernels().len(), 1);
//! assert_eq!(artifact.kernels()[0].params.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * Kernels that reach a [`Renderer`] are verified.
//! * A kernel names no node: equal computations on different nodes are one kernel.
//! * The one unsafe step, calling compiled code, is [`host::HostModule::run`]; `docs/abi.md` says what it relies on.
//! * Safe code cannot change what compiled code relies on: [`Kernel`], [`ScheduledRoutine`], [`Artifact`] and [`Code`] are checked when they
//!   are made and cannot be altered, and native code comes with its ABI, for which an `unsafe` constructor vouches.
#![deny(unsafe_code)]

pub mod caps; // what a target can do

pub mod access; // which elements a piece of IR touches
pub mod canonical; // nests for a target's matrix kernels
pub mod matrices; // those of them that are products of matrices

pub mod form; // which kernels workgroups can run
pub mod kernel; // what is compiled
pub mod scheduled; // kernels, and the calls that bind them
pub mod threads; // what those who write code for threads ask

pub mod contract; // what a codegen implements

pub mod artifact; // what it hands to a device
pub mod code; // both halves of a compiled routine
pub mod host; // calling kernels of this process
mod log; // what they log
pub mod log_buffer; // what those log that call nothing
mod panic; // payloads of panics
mod ptx; // kernels for NVIDIA's processors
mod shader; // kernels as text for GPUs

pub mod interpreted; // the codegen that compiles nothing

pub use artifact::{Access, Artifact, Cost, KernelAbi, Launch, Param, Payload};
pub use caps::{BASE_ALIGNMENT, Caps, DTypeSet, Transcendental, Workgroups};
pub use code::{Code, CodeError, CodeMismatch};
pub use contract::{Codegen, CodegenError, Compiler, Listing, Renderer};
pub use form::{FormError, check_form};
pub use interpreted::Interpreted;
pub use kernel::{Kernel, KernelError};
pub use log::{LogSink, Logging};
pub use panic::panic_message;
pub use ptx::{PtxLaunch, PtxModule, TensorMap, TileSwizzle};
pub use scheduled::{
    KernelCall, RoutineError, RoutineParts, RoutineProblem, ScheduledRoutine, Slot, Temp, TempId,
};
pub use shader::{Shader, ShaderModule};

tnode::debug_as_display!(CodeError, CodegenError, FormError, KernelError, RoutineError, RoutineProblem,);
