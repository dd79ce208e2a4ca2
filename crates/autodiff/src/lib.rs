#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod formula; // formulas of adjoints
pub mod rules; // the table of derivatives

mod name_supply; // names of new nodes

mod access; // accesses, and accumulations derived from others
mod forward_program; // the program to differentiate
mod recompute; // values that the backward pass computes again
mod statement; // one accumulation of it

mod backward; // the steps in reverse
mod operands; // the adjoints of the operands of one step
mod reductions; // extremes and products of several values
mod windows; // the adjoints of operands that are read in windows

mod error;
mod gradient; // the public functions of reverse mode
mod tangent; // forward mode
mod tangent_reductions; // extremes and products in forward mode

mod check; // comparison with differences
mod retype; // programs in double precision

pub use crate::check::{CheckError, CheckOptions, WorstElement, check};
pub use crate::error::{GradientError, GradientErrorKind};
pub use crate::formula::Formula;
pub use crate::gradient::{Gradient, expand, gradient, gradient_seeded};

pub use crate::tangent::{Tangent, tangent};

tnode::debug_as_display!(CheckError, GradientError, GradientErrorKind);
