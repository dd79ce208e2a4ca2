//! Gradients of programs in index notation, as programs in index notation.
//!
//! # Should I be using this crate?
//!
//! To compute gradients of a program of `assignments`, or to write a front end that does: yes. To train a
//! network, use `arrayjit`, which re-exports what you need of it.
//!
//! # Example
//!
//! Differentiates a sum of squares; the program with its gradient is one list of assignments:
//!
//! ```
//! use assignments::text;
//! use tnode::{DType, TensorNode};
//!
//! let w = TensorNode::builder("w").dims([3]).dtype(DType::F32).build()?;
//! let loss = TensorNode::builder("loss").dims([]).dtype(DType::F32).build()?;
//! let program = text::parse("loss :+= w[i] * w[i]", &[w.clone(), loss.clone()])?;
//! let gradient = autodiff::gradient(&program, &loss, &[&w])?;
//! assert!(gradient.program.to_string().ends_with(
//!     "loss.grad =: 1;\nw.grad[i0] =:+ loss.grad * w[i0];\nw.grad[i0] =+ loss.grad * w[i0];\n"
//! ));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Every step of a program has one operation, so the steps in reverse order, each with the rule of its
//! operation ([`rules`], printed in `docs/derivatives.md`), are the gradient: reverse mode, as a source
//! transformation. A step `c[m,n] :+= a[m,k] * b[k,n]` adds `c.grad[m,n] * b[k,n]` to `a.grad[m,k]` at the
//! same points. The adjoint of a gather is a scatter, that of a window a window of the node written.
//!
//! # Promises
//!
//! * The gradient by a parameter is that by the values which the parameter has at the end of the program.
//! * No rule multiplies by an infinite factor where a condition has selected another value, so `where` leaks
//!   no NaN.
//! * Values that later steps overwrite are copied if the backward pass needs them, by steps of the program.
//! * A program that cannot be differentiated gives a typed error that names the statement.
//!
//! # Features
//!
//! None.
#![forbid(unsafe_code)]

mod formula; // formulas of adjoints
pub mod rules; // the table of derivatives

mod access; // accesses, and accumulations derived from others
mod forward_program; // the program to differentiate
mod statement; // one accumulation of it

mod backward; // the steps in reverse
mod reductions; // extremes and products of several values

mod error;
mod gradient; // the public functions

mod check; // comparison with differences
mod retype; // programs in double precision

pub use crate::check::{CheckError, CheckOptions, WorstElement, check};
pub use crate::error::{GradientError, GradientErrorKind};
pub use crate::formula::Formula;
pub use crate::gradient::{Gradient, expand, gradient, gradient_seeded};

tnode::debug_as_display!(CheckError, GradientError, GradientErrorKind);
