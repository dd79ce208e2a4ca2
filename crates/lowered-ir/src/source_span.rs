//! A range of a program's text, and the form in which all messages show it: its line, with carets under the
//! range.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The maximum number of characters of a line that are shown.
const SHOWN: usize = 240;

/// A text, behind which the sources of a library may stand. Clones share the text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SourceText {
    text: Arc<str>,
    /// The sources behind the user's text, each with its first byte and its name, in order.
    library: Arc<[(usize, Arc<str>)]>,
}

impl SourceText {
    /// The text `user`, and behind it the sources of a library, each with its name. Also returns the first
    /// byte of each source.
    pub fn with_library(user: &str, sources: &[(&str, &str)]) -> (SourceText, Vec<usize>) {
        let (mut text, mut library) = (user.to_owned(), Vec::new());
        for (name, source) in sources {
            text.push('\n');
            library.push((text.len(), Arc::from(*name)));
            text.push_str(source);
        }
        let starts = library.iter().map(|(start, _)| *start).collect();
        (SourceText { text: text.into(), library: library.into() }, starts)
    }

    /// The text of the user.
    pub fn user_text(&self) -> &str {
        let end = self.library.first().map_or(self.text.len(), |(start, _)| start - 1);
        &self.text[..end]
    }

    /// The first byte of the source to which a byte belongs, and the source's name, which the user's text
    /// lacks.
    fn source(&self, at: usize) -> (usize, Option<&str>) {
        let source = self.library.iter().rev().find(|(start, _)| *start <= at);
        source.map_or((0, None), |(start, name)| (*start, Some(&**name)))
    }
}

impl Deref for SourceText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<Arc<str>>> From<T> for SourceText {
    fn from(text: T) -> SourceText {
        SourceText { text: text.into(), library: Arc::default() }
    }
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.user_text(), f)
    }
}

/// A range of bytes of a text, together with the text. Clones share the text.
///
/// Displays the line on which it begins, with carets under the part that lies on that line. A long line is
/// cut around the beginning. The constructs around it follow, the innermost first.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceSpan {
    text: SourceText,
    bytes: Range<usize>,
    outer: Option<Arc<OuterConstruct>>,
}

/// A construct whose expansion contains a span.
#[derive(PartialEq, Eq)]
struct OuterConstruct {
    description: String,
    span: SourceSpan,
}

impl SourceSpan {
    /// The bytes `bytes` of `text`. An end outside of the text, or within a character, moves left to a
    /// character's end.
    pub fn new(text: impl Into<SourceText>, bytes: Range<usize>) -> SourceSpan {
        let text = text.into();
        let start = floor_boundary(&text, bytes.start);
        let end = floor_boundary(&text, bytes.end).max(start);
        SourceSpan { text, bytes: start..end, outer: None }
    }

    /// The span in the expansion of a construct, such as the call of a function that it belongs to. The
    /// description reads ``in function `softmax` ``; `outer` is the span of the construct.
    #[must_use]
    pub fn within(self, description: impl Into<String>, outer: SourceSpan) -> SourceSpan {
        let outer = OuterConstruct { description: description.into(), span: outer };
        SourceSpan { outer: Some(Arc::new(outer)), ..self }
    }

    /// The construct whose expansion contains the span, and its description.
    pub fn outer(&self) -> Option<(&str, &SourceSpan)> {
        self.outer.as_deref().map(|outer| (outer.description.as_str(), &outer.span))
    }

    /// The part of the text, line breaks included.
    pub fn text(&self) -> &str {
        self.text.get(self.bytes.clone()).unwrap_or_default()
    }

    /// The range in bytes of the text, end excluded. The sources of a library come behind the user's text.
    pub fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }

    /// The name of the library's source in which it begins, such as `prelude/losses.assign`; `None` for the
    /// user's text.
    pub fn source(&self) -> Option<&str> {
        self.text.source(self.bytes.start).1
    }

    /// The line on which it begins, from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// The column in which it begins, in characters from 1.
    pub fn column(&self) -> usize {
        self.before()[self.line_start()..].chars().count() + 1
    }

    /// Its line, as messages name it: `line 3`, after the name of a library's source.
    pub fn line_name(&self) -> String {
        let source = self.source().map(|name| format!("{name}, ")).unwrap_or_default();
        format!("{source}line {}", self.line())
    }

    /// Its beginning, as messages name it: `line 3, column 5`, after the name of a library's source.
    pub fn position(&self) -> String {
        format!("{}, column {}", self.line_name(), self.column())
    }

    /// The source in which it begins, up to its beginning.
    fn before(&self) -> &str {
        &self.text[self.text.source(self.bytes.start).0..self.bytes.start]
    }

    /// The first byte of its line in its source.
    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |newline| newline + 1)
    }
}

/// The greatest character boundary not after `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Displays spans one below the other. The constructs around consecutive spans that share them follow the
/// last of these spans.
pub struct SpanList<'a>(pub &'a [SourceSpan]);

impl fmt::Display for SpanList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, span) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match self.0.get(at + 1) {
                Some(next) if next.outer == span.outer => span.fmt_line(f)?,
                _ => span.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_line(f)?;
        match self.outer() {
            Some((description, outer)) => write!(f, "\n{description}, {}\n{outer}", outer.position()),
            None => Ok(()),
        }
    }
}

impl SourceSpan {
    /// Displays the line with the carets, without the constructs around the span.
    fn fmt_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line_start = self.bytes.start - self.before().len() + self.line_start();
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let end = self.bytes.end.min(line_start + line.len());
        let width = self.text.get(self.bytes.start..end).map_or(0, |part| part.chars().count()).max(1);
        let before = self.column() - 1;
        let skipped = if line.chars().count() > SHOWN { before.saturating_sub(SHOWN / 2) } else { 0 };
        let shown: String =
            line.chars().map(|c| if c == '\t' { ' ' } else { c }).skip(skipped).take(SHOWN).collect();
        let caret = before - skipped;
        let width = width.min(shown.chars().count().saturating_sub(caret)).max(1);
        let number = self.line().to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{number} | {shown}")?;
        write!(f, "{margin} | {}{}", " ".repeat(caret), "^".repeat(width))
    }
}

impl fmt::Debug for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {:?}", self.line(), self.column(), self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stay_on_the_line_and_count_characters() {
        let shown = |text: &str, span: Range<usize>| SourceSpan::new(text, span).to_string();
        assert_eq!(shown("a := b", 5..6), "1 | a := b\n  |      ^");
        assert_eq!(shown("x\nαβ\ty\nz", 6..60), "2 | αβ y\n  |   ^^");
        assert_eq!(shown("", 0..0), "1 | \n  | ^");
        assert_eq!(shown("é", 1..2), "1 | é\n  | ^");
    }

    #[test]
    fn the_constructs_around_a_span_follow() {
        let text = SourceText::from("f := 1\ng := f()");
        let call = SourceSpan::new(text.clone(), 12..15)
            .within("in repetition", SourceSpan::new(text.clone(), 7..8));
        let span = SourceSpan::new(text, 0..1).within("in function", call.clone());
        assert_eq!(span.outer(), Some(("in function", &call)));
        assert_eq!(
            span.to_string(),
            "1 | f := 1\n  | ^\nin function, line 2, column 6\n2 | g := f()\n  |      ^^^\n\
             in repetition, line 2, column 1\n2 | g := f()\n  | ^"
        );
    }

    #[test]
    fn spans_of_one_construct_show_it_once() {
        let text = SourceText::from("f := 1\nh := 2\ng := f()");
        let span = |bytes: Range<usize>| SourceSpan::new(text.clone(), bytes);
        let inner = |bytes: Range<usize>| span(bytes).within("in function", span(19..22));
        assert_eq!(
            SpanList(&[inner(0..1), inner(7..8)]).to_string(),
            "1 | f := 1\n  | ^\n2 | h := 2\n  | ^\nin function, line 3, column 6\n3 | g := f()\n  |      ^^^"
        );
        assert_eq!(
            SpanList(&[inner(0..1), span(7..8)]).to_string(),
            format!("{}\n{}", inner(0..1), span(7..8))
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_beginning() {
        let text = "é".repeat(1000);
        let shown = SourceSpan::new(text.as_str(), 1000..2000).to_string();
        let expected = format!("1 | {}\n  | {}{}", "é".repeat(240), " ".repeat(120), "^".repeat(120));
        assert_eq!(shown, expected);
    }

    #[test]
    fn lines_of_a_library_are_counted_in_their_sources() {
        let (text, starts) = SourceText::with_library("a\nb", &[("x.lib", "c\nd e"), ("y.lib", "f\n")]);
        assert_eq!((starts, text.user_text()), (vec![4, 10], "a\nb"));
        let place = |bytes: Range<usize>| {
            let span = SourceSpan::new(text.clone(), bytes);
            format!("{}\n{span}", span.position())
        };
        assert_eq!(place(2..3), "line 2, column 1\n2 | b\n  | ^");
        assert_eq!(place(8..9), "x.lib, line 2, column 3\n2 | d e\n  |   ^");
        assert_eq!(place(10..11), "y.lib, line 1, column 1\n1 | f\n  | ^");
    }

    #[test]
    fn the_part_and_its_place_can_be_asked_for() {
        let span = SourceSpan::new("a := 1\n  b := αβ", 14..18);
        assert_eq!((span.line(), span.column(), span.text(), span.bytes()), (2, 8, "αβ", 14..18));
        assert_eq!(format!("{span:?}"), "2:8 \"αβ\"");
        assert_eq!(SourceSpan::new("ab", Range { start: 2, end: 1 }).text(), "");
    }
}
