//! The report about a program that `cargo xtask assign check` prints: its nodes, and the ranges of its
//! letters.

use std::fmt;

use crate::tree::{ResolvedStep, StepKind};
use crate::unparse::source_line;
use assignments::Assignments;

/// A program with the ranges of the letters of its statements.
#[derive(Debug)]
pub struct ProgramReport {
    /// The program, whose nodes have their dimensions and element types.
    pub assignments: Assignments,
    /// The expanded statements and gradients, in order.
    pub statements: Vec<StatementRanges>,
}

/// A statement or gradient with the ranges of its letters. Displays as `y[i] := x[i]  # i < 8`.
#[derive(Clone, Debug)]
pub struct StatementRanges {
    /// The statement on one line.
    pub statement: String,
    /// The letters in the order of the loops, each with the number of its values.
    pub letters: Vec<(String, i64)>,
}

impl StatementRanges {
    pub(crate) fn new(step: &ResolvedStep, text: &str) -> StatementRanges {
        let letters = match &step.kind {
            StepKind::Ranged(resolved, ranges) => {
                let letters = resolved.letters.iter().zip(ranges);
                let plain = letters.filter(|(letter, _)| letter.parts.is_empty());
                plain.map(|(letter, &range)| (letter.name.clone(), range)).collect()
            }
            _ => Vec::new(),
        };
        StatementRanges { statement: source_line(&step.source, text), letters }
    }
}

impl fmt::Display for StatementRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.statement)?;
        self.letters.iter().enumerate().try_for_each(|(at, (letter, range))| {
            write!(f, "{} {letter} < {range}", if at == 0 { "  #" } else { "," })
        })
    }
}
