//! The errors of the verifier.

use std::fmt;

use tnode::DType;

use crate::{
    ir::{NodeRef, Routine, Stmt, SymbolId},
    text::print_stmt,
};

/// A broken rule, with the routine and the place in it.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyError {
    /// The routine's name.
    pub routine: String,
    /// The position in the routine.
    pub place: RoutinePosition,
    /// The first line of the statement there, as the text form writes it; empty for other places.
    pub stmt: String,
    /// The broken rule, with the facts. Boxed to keep results small.
    pub violation: Box<Violation>,
}

/// A place in a routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutinePosition {
    /// The routine itself.
    Routine,
    /// The declaration of a symbol.
    Symbol(SymbolId),
    /// The declaration of a node.
    Node(NodeRef),
    /// A statement: its position in the body, then in the body of the loop there, and so on.
    Stmt(Vec<usize>),
}

/// A broken rule with the facts of the case. The rules are listed in [the module](crate::verify).
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// V1.
    #[error("V1: the name is {found:?}, expected an identifier")]
    Name {
        /// The name.
        found: String,
    },
    /// V1.
    #[error("V1: symbol @{name} is declared twice")]
    SymbolTwice {
        /// The name.
        name: String,
    },
    /// V2.
    #[error("V2: the range is 0..{found}, expected an end within 1..={max}")]
    SymbolRange {
        /// The end of the range.
        found: i64,
        /// The limit.
        max: i64,
    },
    /// V3.
    #[error("V3: {array} takes {found} {unit}, expected at most {max}")]
    TooLarge {
        /// The array.
        array: String,
        /// The size found; saturated.
        found: u128,
        /// The unit of the sizes.
        unit: &'static str,
        /// The limit.
        max: u64,
    },
    /// V4.
    #[error("V4: {what} nest more than {max} deep")]
    TooDeep {
        /// Loops or expressions.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// V5.
    #[error("V5: more than {max} statements, as often as unrolling repeats them")]
    TooMany {
        /// The limit.
        max: u64,
    },
    /// V6.
    #[error("V6: {what} is introduced twice, expected a name of its own")]
    Twice {
        /// The loop variable or local.
        what: String,
    },
    /// V7.
    #[error("V7: {what} is not in scope, expected {expected}")]
    OutOfScope {
        /// The reference.
        what: String,
        /// The valid form.
        expected: &'static str,
    },
    /// V8.
    #[error("V8: the loop over {var} ends at {found}, expected within ±{max}")]
    LoopBound {
        /// The loop variable.
        var: String,
        /// The end, lower or upper.
        found: i64,
        /// The limit.
        max: i64,
    },
    /// V8.
    #[error("V8: the loop over {var} has {found} iterations, expected at most {max}")]
    LoopExtent {
        /// The loop variable.
        var: String,
        /// How many iterations.
        found: i64,
        /// The limit.
        max: i64,
    },
    /// V8.
    #[error("V8: the unrolled loop over {var} ends at {found}, expected a constant")]
    UnrolledBound {
        /// The loop variable.
        var: String,
        /// A part of the end that is no constant, as the text form writes it.
        found: String,
    },
    /// V8.
    #[error("V8: the loop over {var} ends at {found}, which can leave ±{max}")]
    DynamicBound {
        /// The loop variable.
        var: String,
        /// The part of the end, as the text form writes it.
        found: String,
        /// The limit.
        max: i64,
    },
    /// V9.
    #[error("V9: the vector loop over {var} is {found}, expected 0..n with a constant n within 1..={max}")]
    VectorBounds {
        /// The loop variable.
        var: String,
        /// The bounds.
        found: String,
        /// The limit.
        max: i64,
    },
    /// V25.
    #[error(
        "V25: the workgroup loop over {var} is {found}, expected 0..n with a constant n within 1..={max}"
    )]
    WorkgroupBounds {
        /// The loop variable.
        var: String,
        /// The bounds.
        found: String,
        /// The limit.
        max: i64,
    },
    /// V24.
    #[error(
        "V24: thread local {local} is touched here, expected it in the same workgroup loops everywhere, their variables as its first indices, and their extents as its first dimensions"
    )]
    ThreadIndex {
        /// The local.
        local: String,
    },
    /// V9.
    #[error("V9: the loop over {inner} is in the vector loop over {outer}, expected no loop there")]
    LoopInVector {
        /// The variable of the inner loop.
        inner: String,
        /// The variable of the vector loop.
        outer: String,
    },
    /// V10.
    #[error("V10: {array} has {expected} dimensions, found {found} indices")]
    Arity {
        /// The array.
        array: String,
        /// The number of its dimensions.
        expected: usize,
        /// The number of indices.
        found: usize,
    },
    /// V11.
    #[error("V11: index {dim} of {array} is within {lo}..={hi}, expected within 0..{size}")]
    OutOfBounds {
        /// The array.
        array: String,
        /// The dimension, counted from 0.
        dim: usize,
        /// The least value that could not be excluded.
        lo: i64,
        /// The greatest.
        hi: i64,
        /// The size of the dimension.
        size: usize,
    },
    /// V12.
    #[error("V12: the embedded index has type {found}, expected i32 or i64")]
    IndexType {
        /// The type.
        found: DType,
    },
    /// V12.
    #[error("V12: the index is within {lo}..={hi}, which does not fit {dtype}")]
    IndexTooWide {
        /// The least value.
        lo: i64,
        /// The greatest value.
        hi: i64,
        /// The type.
        dtype: DType,
    },
    /// V12.
    #[error("V12: the index {index} can leave 64 bits")]
    IndexOverflow {
        /// The index as the text form writes it.
        index: String,
    },
    /// V12.
    #[error(
        "V12: index {dim} of {array} has the factor {found}, whose multiple of the stride exceeds 2^56 bytes"
    )]
    IndexTooSteep {
        /// The array.
        array: String,
        /// The dimension, counted from 0.
        dim: usize,
        /// The coefficient or constant.
        found: i64,
    },
    /// V13.
    #[error(
        "V13: register local {local} is indexed by {var}, expected variables of unrolled and vector loops"
    )]
    RegisterIndex {
        /// The local.
        local: String,
        /// The variable.
        var: String,
    },
    /// V14.
    #[error("V14: {what} has type {found}, expected {expected}")]
    Operand {
        /// The operand, in words.
        what: String,
        /// The valid form.
        expected: String,
        /// Its type.
        found: DType,
    },
    /// V15.
    #[error("V15: the stored value has type {found}, expected {expected} of {array}")]
    Stored {
        /// The array.
        array: String,
        /// Its type.
        expected: DType,
        /// The value's type.
        found: DType,
    },
    /// V16.
    #[error("V16: {what} has type u32x4, which only generators, lanes, selections and stores take")]
    RandomBits {
        /// The operand, in words.
        what: String,
    },
    /// V17.
    #[error("V17: a bit cast from {from} to {to}, expected {expected}")]
    Bitcast {
        /// The operand's type.
        from: DType,
        /// The result's type.
        to: DType,
        /// The valid form.
        expected: &'static str,
    },
    /// V18.
    #[error("V18: the merge buffer is read as {found}, expected {expected} as before")]
    MergeNode {
        /// The node read first.
        expected: String,
        /// The node read here.
        found: String,
    },
    /// V19.
    #[error("V19: {node} is zeroed in the {kind} loop over {var}, expected stores of single elements")]
    ZeroInLoop {
        /// The node.
        node: String,
        /// Vector or parallel.
        kind: &'static str,
        /// The loop variable.
        var: String,
    },
    /// V21.
    #[error("V21: {array} is accessed at a computed index of dimension {axis}, expected one of its {rank}")]
    DynamicAxis {
        /// The array.
        array: String,
        /// The dimension.
        axis: usize,
        /// How many there are.
        rank: usize,
    },
    /// V21.
    #[error("V21: {array} has the index {found} in the dimension whose index is computed, expected 0")]
    DynamicIndex {
        /// The array.
        array: String,
        /// The index as the text form writes it.
        found: String,
    },
    /// V21.
    #[error("V21: `{op}` does not accumulate, expected an operation such as `+` or `max`")]
    NotAccumulating {
        /// The operation.
        op: &'static str,
    },
    /// V22.
    #[error("V22: lane {found} of a u32x4, expected 0 to 3")]
    Lane {
        /// The lane.
        found: u8,
    },
    /// V23.
    #[error("V23: a line is logged in the {kind} loop over {var}, whose iterations have no order")]
    LogInLoop {
        /// Vector or parallel.
        kind: &'static str,
        /// The loop variable.
        var: String,
    },
    /// V20.
    #[error(
        "V20: iterations of the {kind} loop over {var} may meet in this {access} of {array}, which the loop writes"
    )]
    Dependent {
        /// The array.
        array: String,
        /// A read or a write.
        access: &'static str,
        /// Vector or parallel.
        kind: &'static str,
        /// The loop variable.
        var: String,
    },
}

impl Violation {
    /// Whether the routine is too large, rather than wrong.
    pub fn is_limit(&self) -> bool {
        matches!(self, Violation::TooLarge { .. } | Violation::TooDeep { .. } | Violation::TooMany { .. })
    }
}

/// How much of a statement an error shows.
const SHOWN: usize = 100;

impl VerifyError {
    pub(super) fn new(routine: &Routine, place: RoutinePosition, violation: Violation) -> VerifyError {
        let stmt = match &place {
            RoutinePosition::Stmt(path) => {
                find(&routine.body, path).map(|stmt| head(routine, stmt)).unwrap_or_default()
            }
            _ => String::new(),
        };
        VerifyError { routine: routine.name.clone(), place, stmt, violation: Box::new(violation) }
    }
}

fn find<'r>(block: &'r [Stmt], path: &[usize]) -> Option<&'r Stmt> {
    let (&first, rest) = path.split_first()?;
    match block.get(first)? {
        Stmt::For { body, .. } if !rest.is_empty() => find(body, rest),
        stmt => Some(stmt),
    }
}

/// The first line of a statement; of a loop, the line without its body.
fn head(routine: &Routine, stmt: &Stmt) -> String {
    let text = match stmt {
        Stmt::For { var, lo, hi, kind, .. } => print_stmt(
            routine,
            &Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body: Vec::new() },
        ),
        _ if stmt.values().into_iter().any(super::check::is_too_deep) => return String::new(),
        _ => print_stmt(routine, stmt),
    };
    text.lines().next().unwrap_or("").chars().take(SHOWN).collect()
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "routine @{}, {}", self.routine, self.place)?;
        if !self.stmt.is_empty() {
            write!(f, " `{}`", self.stmt)?;
        }
        write!(f, ": {}", self.violation)
    }
}

// The message contains that of the violation, so the violation is not reported as a source as well.
impl std::error::Error for VerifyError {}

impl fmt::Display for RoutinePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoutinePosition::Routine => f.write_str("its head"),
            RoutinePosition::Symbol(symbol) => write!(f, "symbol {}", symbol.0),
            RoutinePosition::Node(node) => write!(f, "node {node}"),
            RoutinePosition::Stmt(path) => {
                let path: Vec<String> = path.iter().map(usize::to_string).collect();
                write!(f, "statement {}", path.join("."))
            }
        }
    }
}
