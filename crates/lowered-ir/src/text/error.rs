//! The error of the parser.

use std::fmt;

use crate::stack::NoStack;

/// Why a text is not in the text form, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The token or construct that would be valid at this place.
    pub expected: String,
    /// The text at this place.
    pub found: String,
    /// The line itself, or the part of a long line around the column.
    pub source_line: String,
    /// How many characters of [`source_line`](Self::source_line) come before the column.
    pub caret: usize,
}

/// How many characters of a line are shown before and after the column of the error.
const SHOWN: usize = 80;

impl ParseError {
    /// The error at a byte offset of a text.
    pub(super) fn at(
        text: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ParseError {
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = text[start..offset].chars().count();
        let line = text[start..].lines().next().unwrap_or("");
        let skipped = column.saturating_sub(SHOWN);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: column + 1,
            expected: expected.into(),
            found: found.into(),
            source_line: line.chars().skip(skipped).take(2 * SHOWN).map(plain).collect(),
            caret: column - skipped,
        }
    }
}

/// A tab or another control character would move the caret away from its column.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { line, column, expected, found, source_line, caret } = self;
        writeln!(f, "line {line}, column {column}: expected {expected}, found {found}")?;
        writeln!(f, "  | {source_line}")?;
        write!(f, "  | {:caret$}^", "")
    }
}

impl std::error::Error for ParseError {}

/// The error of a text that was not read at all.
impl From<NoStack> for Box<ParseError> {
    fn from(error: NoStack) -> Box<ParseError> {
        Box::new(ParseError::at("", 0, "memory to read the text", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_column() {
        let error = ParseError::at("a\n\tbc", 4, "x", "`c`");
        assert_eq!(error.to_string(), "line 2, column 3: expected x, found `c`\n  |  bc\n  |   ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let text = "é".repeat(1000);
        let error = ParseError::at(&text, 2 * 500, "x", "y");
        assert_eq!((error.column, error.caret, error.source_line.chars().count()), (501, SHOWN, 2 * SHOWN));
    }

    #[test]
    fn the_end_of_a_text_is_a_place_too() {
        let error = ParseError::at("ab\n", 3, "x", "the end of the text");
        assert_eq!((error.line, error.column, error.source_line.as_str()), (2, 1, ""));
    }
}
