//! Statements that fall back, as data.

use std::{fmt, ops::Range};

/// Statements that a backend rejects and another one runs. Displayed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fallback {
    /// The routine's name.
    pub routine: String,
    /// The name of the backend that rejects them.
    pub from: String,
    /// The name of the backend that runs them.
    pub to: String,
    /// Their positions among the top-level statements of the optimized routine.
    pub statements: Range<usize>,
    /// The number of top-level statements of the routine.
    pub num_statements: usize,
    /// The names of the nodes that they write.
    pub writes: Vec<String>,
    /// The unsupported operation, with its operand type, or the unsupported type of a node.
    pub what: String,
    /// The missing capability of the backend.
    pub why: String,
    /// The statements in the loop IR.
    pub text: String,
}

impl Fallback {
    /// The line, then the statements in the loop IR.
    pub fn explain(&self) -> String {
        format!("{self}\n{}", self.text)
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fallback { routine, from, to, statements, num_statements, writes, what, why, .. } = self;
        let first = statements.start + 1;
        let (which, falls) = match statements.len() {
            0 | 1 => (format!("statement {first}"), "falls"),
            _ => (format!("statements {first} to {}", statements.end), "fall"),
        };
        let writes: Vec<String> = writes.iter().map(|name| format!("`{name}`")).collect();
        let writes = if writes.is_empty() { "no node".to_owned() } else { writes.join(", ") };
        write!(
            f,
            "routine `{routine}`: {which} of {num_statements} ({writes}) {falls} back to {to}: {from} does not do {what}: {why}"
        )
    }
}
