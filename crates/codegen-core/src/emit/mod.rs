//! Parts that emitters share. An *emitter* walks the loop IR of a kernel once and writes the target's code on
//! the way.
//!
//! * [`IndexSum`]: an affine index as a sum of computed values, with all known values folded;
//! * [`LoopScope`]: the values of the loop variables in scope, and what indices and guards are because of
//!   them, for targets that compute indices in 32 bits;
//! * [`expr`]: the walk over an expression, which folds constants; an emitter supplies the instructions as an
//!   [`ExprEmitter`];
//! * [`float_remainder`]: the exact remainder of floats, for targets without an instruction or a library
//!   function for it;
//! * [`lacking`]: rejections of kernels that use an operation, a type or a size that the target lacks;
//! * [`ScratchLayout`] and [`LineNumbers`]: the scratch memory of host kernels, and the numbers of log lines.
//!
//! An emitter unrolls a loop by entering it once per iteration with a [known](LoopIndex::Known) value. Every
//! index and guard in the body is then folded as far as possible.
//!
//! Nothing here knows a target: an emitter keeps its own types of values and instructions.

mod expr;
mod index;
pub mod lacking;
mod line_numbers;
mod remainder;
mod scope;
mod scratch;

pub use expr::{ExprEmitter, dynamic_index, expr};
pub use index::{IndexSum, LinearValue, mixed_radix_digits};
pub use line_numbers::LineNumbers;
pub use remainder::{FloatLayout, IntSize, RemainderEmitter, RemainderOp, float_remainder};
pub use scope::{FoldedCondition, LoopIndex, LoopScope, RangeTest, fits_i32};
pub use scratch::ScratchLayout;
