//! What code generators for threads need to know of a kernel before, and while, they write code for it.
//!
//! A kernel in the form that [`crate::check_form`] accepts says which thread does what by its loops. A code generator walks it once and
//! writes instructions; these are the questions that come up on the way, whatever the instructions look like:
//!
//! * [`grid`]: which loops are counted by threads or workgroups, and how many there are;
//! * [`nest`]: which iteration of nested workgroup loops a thread does;
//! * [`plan`]: which loops are repeated in the code, and which locals can be registers because of that;
//! * [`overwrites_first`]: whether the zeros that a local is declared with are ever seen;
//! * [`MeetingPlaces`]: where threads of a workgroup have to wait for each other. [`Meetings`] answers it during the walk, for languages whose
//!   barriers say which memory they are for, and more often than needed.
//!
//! What a code generator does not do it says by a [`Refusal`], which becomes [`CodegenError::Unsupported`](crate::CodegenError::Unsupported).

mod launch;
mod meet;
mod places;
mod plan;
mod refusal;
mod scan;

pub use launch::{Axis, Grid, Nest, grid, has_workgroup_loops, nest, sole};
pub use meet::{Meet, Meetings, Touched};
pub use places::{Fused, MeetingPlaces};
pub use plan::{Home, Plan, PlanLimits, plan};
pub use refusal::{Checked, Refusal, refuse};
pub use scan::overwrites_first;
