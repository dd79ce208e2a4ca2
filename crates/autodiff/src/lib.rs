//! Gradients of programs in index notation, as programs in index notation.
//!
//! # Should I be using this crate?
//!
//! Use it to compute gradients of a program of `assignments`, or to write a front end that has gradients. To
//! train a network, use `arrayjit`.
//!
//! # Example
//!
//! Differentiates a product of a matrix and a vector. The program with its gradient is one list of
//! assignments:
//!
//! ```
//! use assignments::text;
//! use tnode::{DType, TensorNode};
//!
//! let node = |name, dims: &[usize]| {
//!     TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build()
//! };
//! let (x, w, loss) = (node("x", &[4, 3])?, node("w", &[3])?, node("loss", &[])?);
//! let program = text::parse("y[b] :+= x[b,i] * w[i]\nloss :+= tanh(y[b])", &[x, w.clone(), loss.clone()])?;
//! let gradient = autodiff::gradient(&program, &loss, &[&w])?;
//! assert!(gradient.program.to_string().ends_with("w.grad[i1] =:+ y.grad[i0] * x[i0, i1];\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Every step of a program has one operation, so the steps in reverse order, each with the rule of its
//! operation ([`rules`], printed in `docs/derivatives.md`), are the gradient: reverse mode, as a source
//! transformation. A step `c[m,n] :+= a[m,k] * b[k,n]` adds `c.grad[m,n] * b[k,n]` to `a.grad[m,k]` at the
//! same points. A gather becomes a scatter, and a window that is read becomes a window that is written,
//! unless the adjoint is a contraction in the other form.
//! [`tangent()`] is forward mode, with the same rules; [`check()`] compares a gradient with differences.
//!
//! # Promises
//!
//! * The gradient by a parameter is that by the values which the parameter has at the end of the program.
//! * No rule multiplies a 0 by an infinite factor where a condition has selected another value, so `where`
//!   leaks no NaN. Sums of products are an exception, because a matrix product stays one: if an operand has
//!   infinite elements, select them before the sum.
//! * Values that later steps overwrite are copied if the backward pass needs them, by steps of the program.
//! * The backward pass reads the values that the program stores, and computes the nodes of
//!   [`Assignments::recomputed`](assignments::Assignments::recomputed) again, with the same bits. Every array
//!   that it needs is a node of the program.
//! * Gradients can be differentiated again.
//! * A program that cannot be differentiated gives a typed error that names the statement.
//!
//! # Features
//!
//! None.
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
