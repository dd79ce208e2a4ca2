#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Programs.
pub mod indexing; // projections from a product space to operands

mod accum_op; // accumulating operations
mod assignments; // steps over tensor nodes
pub mod builder; // makes assignments without a text
mod custom_gradient; // gradients that a front end gives
mod early_end; // scans with conditions
mod gather_scatter; // makes assignments with computed indices
mod nodes; // nodes by name
mod random; // keys of random numbers
pub mod spelling; // names near a misspelled one
mod symbol_table; // static symbols by name
mod unroll; // scans as copies of their steps

// Queries and reports about programs.
mod analysis; // nodes that steps mention
mod content; // programs by content
mod listing; // listings
mod origin; // source spans of steps
mod run_sizes; // sizes that a run gives
mod warning; // legal statements that are often mistakes

pub mod lower; // assignments -> loops

pub use self::accum_op::{AccumOp, binary_dtype, ternary_dtype, unary_dtype};
pub use self::analysis::{all_steps, identifier, read_whole, written};
pub(crate) use self::analysis::{mentioned, projections_into, sliced};
pub(crate) use self::assignments::literal;
pub use self::assignments::{
    Accum, Assignments, CONSTANT_FILL_LIMIT, FetchOp, Operand, ProgramStep, Rhs, ScanEnd,
};
pub use self::content::ContentNodes;
pub use self::custom_gradient::{CustomGradient, nodes_mut};
pub use self::early_end::{EarlyEndError, KeepScan};
pub(crate) use self::listing::{affine as affine_text, listing};
pub use self::nodes::{Nodes, UnknownNode};
pub use self::origin::{AccessSpan, ByteRange, Origin};
pub use self::random::{KeyPart, Random, SampleValues};
pub use self::symbol_table::SymbolTable;
pub use self::warning::{Warning, WarningKind};

tnode::debug_as_display!(
    builder::BuildError,
    EarlyEndError,
    indexing::ConditionError,
    indexing::IndexError,
    indexing::einsum::SpecError,
    indexing::einsum::SpecErrorKind,
    lower::LowerError,
    lower::LowerErrorKind,
    UnknownNode,
);
