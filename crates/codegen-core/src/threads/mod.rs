//! Questions that code generators for threads ask of a kernel.
//!
//! The loops of a kernel in the form that [`crate::check_form`] accepts determine which thread runs which
//! iteration. A code generator walks the kernel once and writes instructions. These functions answer the
//! questions that arise on the way, independently of the instructions:
//!
//! * [`grid`]: which loops number threads or workgroups, and how many there are;
//! * [`nest`]: which iteration of nested workgroup loops a thread runs;
//! * [`plan`]: which loops are unrolled, and which locals can be registers because of that;
//! * [`overwrites_first`]: whether the initial zeros of a local are ever read;
//! * [`BarrierPlacement`]: before which statements threads of a workgroup need a barrier. [`BarrierTracker`]
//!   answers this during the walk, for languages whose barriers name the memory they order; it finds more
//!   barriers than necessary.
//!
//! A code generator rejects an operation that it lacks by a [`Rejection`](crate::Rejection), which becomes
//! [`CodegenError::Unsupported`](crate::CodegenError::Unsupported).

mod barrier_placement;
mod barriers;
mod launch;
mod plan;
mod scan;

pub use barrier_placement::{BarrierPlacement, FusedStatements};
pub use barriers::{BarrierScope, BarrierTracker, SharedAccesses};
pub use launch::{Grid, GridAxis, Nest, grid, nest, sole};
pub use plan::{Home, MAX_UNROLLED_VALUES, Plan, plan};
pub use scan::overwrites_first;
