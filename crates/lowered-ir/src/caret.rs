//! Showing a place in a text: the line it is on, with carets under it.

use std::fmt;
use std::ops::Range;

/// A place in a text, kept without the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    source_line: String,
    width: usize,
}

impl Place {
    /// The place of the bytes `span` of `text`; what is beyond the first line, or the text, is left out.
    pub(crate) fn new(text: &str, span: &Range<usize>) -> Place {
        let start = floor_boundary(text, span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let source_line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let end = floor_boundary(text, span.end.min(line_start + source_line.len()));
        Place {
            line: before.matches('\n').count() + 1,
            column: text.get(line_start..start).unwrap_or_default().chars().count() + 1,
            width: text.get(start..end).map_or(0, |place| place.chars().count()).max(1),
            source_line: source_line.replace('\t', " "),
        }
    }
}

/// The greatest character boundary not after `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{number} | {}", self.source_line)?;
        write!(f, "{margin} | {}{}", " ".repeat(self.column - 1), "^".repeat(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stay_on_the_line_and_count_characters() {
        let shown = |text: &str, span: Range<usize>| Place::new(text, &span).to_string();
        assert_eq!(shown("a := b", 5..6), "1 | a := b\n  |      ^");
        assert_eq!(shown("x\nαβ\ty\nz", 6..60), "2 | αβ y\n  |   ^^");
        assert_eq!(shown("", 0..0), "1 | \n  | ^");
        assert_eq!(shown("é", 1..2), "1 | é\n  | ^");
    }
}
