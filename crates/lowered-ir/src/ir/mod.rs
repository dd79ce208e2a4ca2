//! The loop IR as data: identifiers, affine indices, operations, scalar expressions, statements, routines.
//!
//! A [`LoweredRoutine`] is a pure value: a table of symbols, a table of node declarations and a tree of
//! statements. It holds no handles, locks or addresses, so it can be printed, parsed, compared, cached and
//! sent anywhere. Every stage from lowering to the scheduled kernel is expressed in it, and [the
//! interpreter](crate::interp) gives every stage its meaning.
//!
//! # Semantics every pass may rely on
//!
//! * **Total**: integer overflow wraps; division and remainder by zero give 0; shifts are modulo the width;
//!   conversions are those of [`tnode::Scalar::convert`]; nothing traps. Both arms of `where` are always
//!   evaluated, so a read in the arm that is not selected accesses memory too, unless it has a guard that
//!   fails.
//! * **Order**: statements run in sequence; a serial loop runs its iterations in increasing order. The
//!   iterations of a vector or parallel loop are independent by the verifier's rule, so their order cannot be
//!   observed.
//! * **Types**: both operands of a binary operation have one element type, which is also the result's, except
//!   that comparisons give `bool`. Nothing converts implicitly.
//! * **Memory**: nodes do not overlap. A declared local is zero when declared and lives to the end of its
//!   block.

mod affine;
mod array_ref;
mod bound;
mod expr;
mod id_map;
mod id_set;
mod ids;
mod indices;
mod op;
mod radix;
mod routine;
mod stmt;
pub mod walk;
mod words;

pub use affine::{Affine, Guard, Range, Var};
pub use array_ref::ArrayRef;
pub use bound::{Bound, VariableBounds, index_bounds};
pub use expr::{Expr, Types};
pub use id_map::IdMap;
pub use id_set::IdSet;
pub use ids::{LocalId, LoopId, NodeRef, SymbolId};
pub use indices::Indices;
pub use op::{BinaryOp, TernaryOp, UnaryOp};
pub use radix::is_mixed_radix;
pub use routine::{
    Fresh, LocalDecl, Locals, LoweredRoutine, NodeDecl, Numerics, Quotient, RoutineTypes, Symbol,
};
pub use stmt::{Block, LogPart, LoopKind, Space, Stmt, Values};
pub use words::Words;
