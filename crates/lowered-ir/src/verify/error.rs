//! The errors of the verifier.

use std::{fmt, ops::Range};

use tnode::DType;

use crate::{
    ir::{LoopKind, LoweredRoutine, NodeRef, Stmt, SymbolId},
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
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Violation {
    #[error("V1: the name is {found:?}, expected an identifier")]
    Name { found: String },
    #[error("V1: symbol @{name} is declared twice")]
    SymbolTwice { name: String },
    #[error("V2: the range is {found:?}, expected a start of 0 or 1 and an end behind it, at most {max}")]
    SymbolRange { found: Range<i64>, max: i64 },
    #[error("V2: parameter @{name} follows a quotient, expected parameters first")]
    ParameterAfterQuotient { name: String },
    #[error("V2: @{name} is the quotient of {found}, expected a sum of symbols before it, within ±{max}")]
    Dividend { name: String, found: String, max: i64 },
    #[error("V2: @{name} has the divisor {found}, expected one within 1..={max}")]
    Divisor { name: String, found: i64, max: i64 },
    /// The size saturates.
    #[error("V3: {array} takes {found} {unit}, expected at most {max}")]
    TooLarge { array: String, found: u128, unit: &'static str, max: u64 },
    #[error("V4: {what} nest more than {max} deep")]
    TooDeep { what: &'static str, max: usize },
    #[error("V5: more than {max} statements, as often as unrolling repeats them")]
    TooMany { max: u64 },
    #[error("V6: {what} is introduced twice, expected a name of its own")]
    Twice { what: String },
    #[error("V7: {what} is not in scope, expected {expected}")]
    OutOfScope { what: String, expected: &'static str },
    #[error("V8: the loop over {var} ends at {found}, expected within ±{max}")]
    LoopBound { var: String, found: i64, max: i64 },
    #[error("V8: the loop over {var} has {found} iterations, expected at most {max}")]
    LoopExtent { var: String, found: i64, max: i64 },
    #[error("V8: the unrolled loop over {var} ends at {found}, expected a constant")]
    UnrolledBound { var: String, found: String },
    #[error("V8: the loop over {var} ends at {found}, which can leave ±{max}")]
    DynamicBound { var: String, found: String, max: i64 },
    #[error("V26: the {kind} loop over {var} has a condition, expected a serial loop or a scan")]
    EndedLoop { var: String, kind: LoopKind },
    #[error("V26: node {node}, the condition of the loop over {var}, has {found} elements, expected one")]
    Condition { var: String, node: NodeRef, found: usize },
    #[error("V9: the vector loop over {var} is {found}, expected 0..n with a constant n within 1..={max}")]
    VectorBounds { var: String, found: String, max: i64 },
    #[error(
        "V25: the workgroup loop over {var} is {found}, expected 0..n with a constant n within 1..={max}"
    )]
    WorkgroupBounds { var: String, found: String, max: i64 },
    #[error(
        "V24: thread local {local} is touched here, expected it in the same workgroup loops everywhere, their variables as its first indices, and their extents as its first dimensions"
    )]
    ThreadIndex { local: String },
    #[error("V9: the loop over {inner} is in the vector loop over {outer}, expected no loop there")]
    LoopInVector { inner: String, outer: String },
    #[error("V10: {array} has {expected} dimensions, found {found} indices")]
    Arity { array: String, expected: usize, found: usize },
    /// The least and the greatest value that could not be excluded. Dimensions count from 0.
    #[error("V11: index {dim} of {array} is within {lo}..={hi}, expected within 0..{size}")]
    OutOfBounds { array: String, dim: usize, lo: i64, hi: i64, size: usize },
    #[error("V12: the embedded index has type {found}, expected i32 or i64")]
    IndexType { found: DType },
    #[error("V12: the index is within {lo}..={hi}, which does not fit {dtype}")]
    IndexTooWide { lo: i64, hi: i64, dtype: DType },
    #[error("V12: the index {index} can leave 64 bits")]
    IndexOverflow { index: String },
    #[error(
        "V12: index {dim} of {array} has the factor {found}, whose multiple of the stride exceeds 2^56 bytes"
    )]
    IndexTooSteep { array: String, dim: usize, found: i64 },
    #[error(
        "V13: register local {local} is indexed by {var}, expected variables of unrolled and vector loops"
    )]
    RegisterIndex { local: String, var: String },
    #[error("V14: {what} has type {found}, expected {expected}")]
    Operand { what: String, expected: String, found: DType },
    #[error("V15: the stored value has type {found}, expected {expected} of {array}")]
    Stored { array: String, expected: DType, found: DType },
    #[error("V16: {what} has type u32x4, which only generators, lanes, selections and stores take")]
    RandomBits { what: String },
    #[error("V17: a bit cast from {from} to {to}, expected {expected}")]
    Bitcast { from: DType, to: DType, expected: &'static str },
    #[error("V18: the merge buffer is read as {found}, expected {expected} as before")]
    MergeNode { expected: String, found: String },
    #[error("V19: {node} is zeroed in the {kind} loop over {var}, expected stores of single elements")]
    ZeroInLoop { node: String, kind: &'static str, var: String },
    #[error("V21: {array} is accessed at a computed index of dimension {axis}, expected one of its {rank}")]
    DynamicAxis { array: String, axis: usize, rank: usize },
    #[error("V21: {array} has the index {found} in the dimension whose index is computed, expected 0")]
    DynamicIndex { array: String, found: String },
    #[error("V21: `{op}` does not accumulate, expected an operation such as `+` or `max`")]
    NotAccumulating { op: &'static str },
    #[error("V22: lane {found} of a u32x4, expected 0 to 3")]
    Lane { found: u8 },
    #[error("V23: a line is logged in the {kind} loop over {var}, whose iterations have no order")]
    LogInLoop { kind: &'static str, var: String },
    #[error(
        "V20: iterations of the {kind} loop over {var} may meet in this {access} of {array}, which the loop writes"
    )]
    Dependent { array: String, access: &'static str, kind: &'static str, var: String },
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
    pub(super) fn new(routine: &LoweredRoutine, place: RoutinePosition, violation: Violation) -> VerifyError {
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
fn head(routine: &LoweredRoutine, stmt: &Stmt) -> String {
    let text = match stmt {
        Stmt::For { var, lo, hi, kind, .. } => print_stmt(
            routine,
            &Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body: Vec::new() },
        ),
        _ if stmt.values().any(super::check::is_too_deep) => return String::new(),
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
