//! The positions of the parts of a routine in its text.

use std::collections::BTreeMap;

/// The line, counted from 1, of each declaration and statement of a parsed routine.
///
/// A statement is named by its path: its position in the routine's body, then in the body of the loop there,
/// and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutineLines {
    /// The line of the routine's name.
    pub routine: usize,
    /// The line of the closing brace.
    pub end: usize,
    /// The lines of the symbols, in order.
    pub symbols: Vec<usize>,
    /// The lines of the nodes, in order.
    pub nodes: Vec<usize>,
    /// The first line of each statement, by path.
    pub stmts: BTreeMap<Vec<usize>, usize>,
}
