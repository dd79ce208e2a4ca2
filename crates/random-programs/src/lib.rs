//! Random programs in assignment text, and the choices that random tests derive from bytes.
//!
//! # Should I be using this crate?
//!
//! Only in tests. [`program_from_bytes`] makes programs in assignment text, as data and as text;
//! [`ProgramWeights`] list the constructs that they consist of. For programs that the front end is known to
//! accept, and for random routines of the loop IR, use `filetests`. To derive another random value from
//! bytes, so that a failing case shrinks with its bytes and a fuzzer can search it, take its decisions from
//! [`Choices`].
//!
//! # Example
//!
//! ```
//! use random_programs::{Choices, ProgramWeights, bytes_of_seed, program_from_seed};
//!
//! let program = program_from_seed(7, 200, &ProgramWeights::one_routine());
//! assert_eq!(program.routines.len(), 1);
//! assert!(!program.text(0).is_empty());
//!
//! let bytes = bytes_of_seed(7, 16);
//! let mut choices = Choices::new(&bytes);
//! let size = *choices.pick(&[1, 2, 3, 5, 8]);
//! assert!(size <= 8);
//! ```
//!
//! # Promises
//!
//! The same bytes give the same decisions and programs on every machine, and an exhausted list gives the
//! simplest ones. Indices of programs are in bounds by construction, except in `pad` and at computed indices.
//! The front end may reject a program whose result depends on the order of its loops, or which loses values.

#![forbid(unsafe_code)]

mod choices; // decisions from bytes
pub mod effort; // the number of cases of random tests
pub mod format; // element types as number formats
mod generate; // programs from bytes
mod gradient_golden; // programs with gradients that another library computed
mod program; // programs as data
mod split_mix; // random words from a seed
mod text; // the text of programs
mod types; // types of expressions
mod weights; // tables of the generator

pub use choices::Choices;
pub use generate::{program_from_bytes, program_from_seed};
pub use gradient_golden::{GradientGolden, gradient_goldens};
pub use program::{
    Accumulation, BinaryFunction, NodeMode, ProgramAccess, ProgramAffine, ProgramAssign, ProgramAxis,
    ProgramBound, ProgramExpr, ProgramLetter, ProgramNode, ProgramNumber, ProgramStatement, ProgramSymbol,
    ProgramVar, RandomProgram, UnaryFunction,
};
pub use split_mix::{SplitMix64, bytes_of_seed};
pub use types::{ExprType, ExprTypes, is_float_function, promote};
pub use weights::{DataKind, ExpressionKind, LeafKind, ProgramWeights, StatementKind, TargetKind};
