#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod formula;
pub mod rules;

mod name_supply;

mod access;
mod forward_program;
mod guards; // selections for infinite factors, in second derivatives
mod recompute;
mod relevant;
mod scans;
mod statement;

mod backward;
mod backward_scan;
mod checkpoints;
mod custom_gradient; // gradients that a front end gives
mod operands;
mod reductions;
mod windows;

mod error;
mod gradient; // the public functions of reverse mode
mod tangent;
mod tangent_reductions; // extremes and products in forward mode

mod check; // comparison with differences
mod retype;

pub use crate::check::{CheckError, CheckOptions, WorstElement, check};
pub use crate::error::{GradientError, GradientErrorKind};
pub use crate::formula::Formula;
pub use crate::gradient::{Gradient, expand, gradient, gradient_seeded};

pub use crate::tangent::{Tangent, tangent};

tnode::debug_as_display!(CheckError, GradientError, GradientErrorKind);
