//! The verifier: the rules that every routine keeps from lowering to code generation.
//!
//! **Promise:** on a routine that [`verify`] accepts, no pass, no code generator and not the interpreter
//! panics. A run of such a routine neither reads nor writes outside of an array, and its results do not
//! depend on the order of independent iterations. Each rule below is checked by one function and has a
//! failing example in the corpus, with the error on the guilty line (V4, which no text can break, in a test
//! of its own).
//!
//! # Declarations
//!
//! * **V1** The routine and its symbols have identifiers for names; no two symbols have the same name.
//! * **V2** A symbol has a range `0..n` or `1..n` with `n <=` [`limits::EXTENT`] and at least one value.
//!   Quotients come after parameters.
//!   A dividend, of a promise too, is a sum of symbols before its quotient, and no value of it can leave
//!   ±[`limits::EXTENT`]; a divisor is within `1..=`[`limits::EXTENT`].
//! * **V3** A node takes at most [`limits::NODE_BYTES`], another local at most [`limits::LOCAL_BYTES`], a
//!   register local has at most [`limits::REGISTER_ELEMENTS`] elements, where a dimension of 0 counts as 1;
//!   no array has more than [`tnode::MAX_RANK`] dimensions.
//!
//! # Size
//!
//! * **V4** Loops nest at most [`limits::NESTING`] deep, and so do the parts of an expression.
//! * **V5** There are at most [`limits::STATEMENTS`] statements, each counted as often as unrolling repeats
//!   it.
//!
//! # References
//!
//! * **V6** Each loop variable and each local is introduced once in the routine.
//! * **V7** Every reference names an object that is declared and in scope: a node or symbol of the tables,
//!   the variable of an enclosing loop, a local declared earlier in the same block or in an enclosing one.
//!
//! # Loops
//!
//! * **V8** The ends of a loop lie within ±[`limits::EXTENT`], and are at most that far apart; those of an
//!   unrolled loop are constants. The expressions that bound a loop mention symbols and the variables of
//!   enclosing loops alone, and no value of them can leave ±[`limits::EXTENT`].
//! * **V26** A loop with a condition is serial or a scan, and its condition is a node of one element.
//! * **V9** A vector loop is `0..n` with a constant `1 <= n <=` [`limits::VECTOR_EXTENT`], and holds no loop.
//!
//! # Indices
//!
//! * **V10** An array is indexed by one index per dimension.
//! * **V11** Every index lies within its dimension, whatever the values of its variables. The proof is by
//!   intervals: each loop variable and symbol ranges over its interval. A loop variable is also less than
//!   the expressions that bound its loop, and may be replaced by them, and a quotient by what its dividend
//!   allows (see [`index_bounds`](crate::ir::index_bounds)). The ranges of a guarded read narrow
//!   these intervals in two ways. A range of a multiple of one variable plus a constant narrows the interval
//!   of that variable. An index that is a multiple of a range's index plus a rest lies within the same
//!   multiple of the range plus the bounds of the rest. An index that mentions a variable without any value
//!   is never evaluated, so it passes.
//! * **V12** An embedded index has type `i32` or `i64` and fits it. No index, guards included, can leave 64
//!   bits, and no coefficient or constant of an access, times the stride in bytes of its dimension, exceeds
//!   2⁵⁶, so that offsets can be computed term by term.
//! * **V13** A register local is indexed by constants and variables of unrolled and vector loops alone.
//!
//! # Types
//!
//! * **V14** The operands of an operation have one type, the condition of `where` is `bool`, and bit
//!   operations are not applied to floats. The value for elements outside a guard has the node's type.
//! * **V15** A stored value has the type of its target.
//! * **V16** `u32x4` values are moved (read, written as constants, selected by `arg1` and `arg2`, stored),
//!   results and operands of generators of random bits, put together by `lanes` and taken apart by `lane`. No
//!   other operation takes or gives one.
//! * **V17** A bit cast is between types of one size, and not to `bool`, which has only two of its byte's
//!   patterns.
//!
//! # Computed indices, lanes, logs
//!
//! * **V21** A computed index is of an integer type and stands for one of the array's dimensions, in which
//!   the index written is 0. An accumulating store has an operation that accumulates
//!   ([`BinaryOp::accumulates`](crate::ir::BinaryOp::accumulates)).
//! * **V22** A lane of a `u32x4` is 0 to 3.
//! * **V23** Nothing is logged in a vector, parallel or workgroup loop: its iterations have no order.
//!
//! # Workgroups
//!
//! * **V24** A thread local is touched in workgroup loops only. Its first indices are the variables of all
//!   workgroup loops around the access, and its first dimensions are their extents. The first dimension may
//!   be greater; then only the first threads take part. The number of these loops is the same at every
//!   access, so each thread has a part of its own.
//! * **V25** A workgroup loop is `0..n` with a constant `1 <= n <=` [`limits::VECTOR_EXTENT`].
//!
//! # Merge buffer
//!
//! * **V18** All reads of the merge buffer in a routine are of the same node, since a stream has one buffer.
//!
//! # Independent iterations
//!
//! * **V19** No node is zeroed in a vector, parallel or workgroup loop.
//! * **V20** Iterations of a vector, parallel or workgroup loop touch different elements of whatever they
//!   write. For each node, and each local declared outside the loop, that is written in the loop, one of its
//!   dimensions must *separate* all reads and writes of it in the loop. See [`independence`] for when a
//!   dimension does.

mod check;
mod error;
pub mod independence;
pub mod limits;
mod ranges;
mod tables;
mod types;
mod verified;

pub use error::{RoutinePosition, VerifyError, Violation};
pub use verified::Verified;

use ranges::VariableIntervals;

use crate::ir::{Guard, Indices, Locals, LoweredRoutine, Stmt, VariableBounds};

/// Rule V12: the maximum product, in bytes, of a coefficient or constant of an index and the stride of its
/// dimension.
pub const MAX_OFFSET_BYTES: u128 = 1 << 56;

/// Whether rule V11 accepts a read at `index` of an array of these dimensions where `guard` holds.
pub(crate) fn proves_in_bounds(
    routine: &LoweredRoutine,
    ranges: &impl VariableBounds,
    guard: &Guard,
    index: &Indices,
    dims: &[usize],
) -> bool {
    let mut known = VariableIntervals::new(routine);
    let mentioned = index.iter().chain(guard.iter().map(|range| &range.index));
    mentioned.for_each(|index| known.copy(index, ranges));
    let ranges = known;
    let narrowed = ranges.narrowed(guard);
    index.iter().zip(dims).all(|(index, &dim)| {
        narrowed.is_vacant(index) || narrowed.bounds(index).is_some_and(|b| 0 <= b.lo && b.hi < dim as i64)
    })
}

/// Checks a routine against every rule.
///
/// # Errors
///
/// The first rule that is broken, in the order of the text.
pub fn verify(routine: &LoweredRoutine) -> Result<(), VerifyError> {
    tables::check(routine)?;
    check::statements(routine, &Locals::new(), &routine.body)
}

/// Checks statements by themselves against the rules on statements; `locals` are the locals declared before
/// them. Their loop variables and locals are unique in the routine.
pub(crate) fn verify_statements(
    routine: &LoweredRoutine,
    locals: &Locals,
    block: &[Stmt],
) -> Result<(), VerifyError> {
    check::statements(routine, locals, block)
}
