#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod choices;
pub mod effort;
pub mod format;
mod generate;
mod gradient_golden;
mod program;
mod split_mix;
mod text;
mod types;
mod weights;

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
