#![doc = include_str!("../README.md")]
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
