//! The scheduler: turns an optimised routine into kernels that use only operations of the target.
//!
//! `pipeline.rs` lists the passes, one list for targets without workgroups and one for those with. A pass has
//! one name: that of its function, of its file, and of its dump. The text form shows the routine after each
//! pass, and the interpreter runs it.
//!
//! # Should I be using this crate?
//!
//! To make kernels of optimised routines for a code generator: yes, call [`schedule()`] with the generator.
//! To write a code generator, `codegen-core` is enough. To compute something, use `arrayjit`.
//!
//! # Example
//!
//! ```
//! use codegen_core::Interpreted;
//! use scheduling::{ScheduleOptions, schedule};
//!
//! let routine = lowered_ir::text::parse(
//!     "routine @double strict {
//!        node %0 \"x\" f32[4] on_device
//!        node %1 \"y\" f32[4] on_device
//!        for i0 in 0..4 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let scheduled = schedule(&routine, &Interpreted::new(), &ScheduleOptions::default())?;
//! assert_eq!(scheduled.kernels().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * [`schedule()`] determines every bit: the interpreter of a scheduled routine and its compiled code agree,
//!   whatever the width of vectors and the number of threads. `strict` routines keep the bits they had
//!   before.
//! * Kernels are verified, and made of the operations that the target's [`Caps`](codegen_core::Caps) list.
//!
//! # Numerics
//!
//! The pass `make_numerics_explicit` decides every bit, and later passes keep it. On targets with workgroups
//! the pass `map_threads` decides the order of reductions. Each numeric class promises the following.
//!
#![doc = include_str!("common/numerics.md")]
#![forbid(unsafe_code)]

mod error; // why a routine has no schedule
mod options; // choices of the caller
mod pipeline; // the passes, in order

pub mod legalise; // operations and types that a target has

mod analysis; // questions that passes ask
mod common; // passes for every target
mod cpu; // passes for targets without workgroups
mod gpu; // passes for targets with workgroups

pub use error::ScheduleError;
pub use legalise::{LegaliseError, legalise};
pub use options::{FmaPolicy, ScheduleOptions};
pub use pipeline::{PASS_NAMES, schedule, schedule_serial, schedule_traced};

tnode::debug_as_display!(LegaliseError, ScheduleError);
