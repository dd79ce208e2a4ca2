//! Divides the text of a Rust file into code, comments and string literals.

use std::ops::Range;

/// The kind of a region of a Rust file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegionKind {
    /// Everything outside comments and string literals.
    Code,
    /// A line comment up to the end of its line, or a block comment; documentation comments too.
    Comment,
    /// A string literal with its quotes.
    Text,
}

/// A range of bytes of a Rust file and its kind.
pub(super) type Region = (RegionKind, Range<usize>);

/// The regions of the text, in order, without gaps. A file that does not parse has regions as well.
pub(super) fn regions(text: &str) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (kind, length) = next(&text[at..], text[..at].chars().next_back());
        match regions.last_mut() {
            Some((RegionKind::Code, range)) if kind == RegionKind::Code => range.end += length,
            _ => regions.push((kind, at..at + length)),
        }
        at += length;
    }
    regions
}

/// The kind and the length in bytes of what the text starts with: a comment, a string literal, a character
/// literal, or else one character of code.
fn next(text: &str, before: Option<char>) -> (RegionKind, usize) {
    let in_word = before.is_some_and(is_word);
    if text.starts_with("//") {
        return (RegionKind::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (RegionKind::Comment, block_comment(text));
    }
    if text.starts_with('"') {
        return (RegionKind::Text, escaped(text, '"'));
    }
    if !in_word && let Some(length) = raw_string(text) {
        return (RegionKind::Text, length);
    }
    let first = text.chars().next().map_or(1, char::len_utf8);
    let length = if text.starts_with('\'') { character(text).unwrap_or(first) } else { first };
    (RegionKind::Code, length)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the block comment that the text starts with; block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the literal that the text starts with, up to and with the next quote without a backslash.
fn escaped(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of the raw string literal that the text starts with, if it starts with one.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let body_length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + body_length)
}

/// The length of the character literal that the text starts with; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.chars().skip(1);
    let (first, second) = (chars.next()?, chars.next()?);
    (first == '\\' || second == '\'').then(|| escaped(text, '\''))
}

#[cfg(test)]
mod tests {
    use super::{RegionKind::*, *};

    #[test]
    fn regions_are_code_comments_and_strings() {
        let text = r##"let a = "x // \" y"; // "c"
/* a /* b */ c */ f('"', '\'', b"z", r#"q " r"#); fn g<'a>() { r"s" }
/// d"##;
        let found = regions(text);
        let of = |kind| -> Vec<&str> {
            found.iter().filter(|(k, _)| *k == kind).map(|(_, range)| &text[range.clone()]).collect()
        };
        assert_eq!(of(Comment), ["// \"c\"", "/* a /* b */ c */", "/// d"]);
        assert_eq!(of(Text), ["\"x // \\\" y\"", "\"z\"", "r#\"q \" r\"#", "r\"s\""]);
        let whole: usize = found.iter().map(|(_, range)| range.len()).sum();
        assert_eq!(whole, text.len());
    }

    #[test]
    fn unfinished_literals_end_with_the_text() {
        for text in ["\"a", "r#\"a\"", "/* a /* b */", "'\\", "'"] {
            assert_eq!(regions(text).last().map(|(_, range)| range.end), Some(text.len()), "{text}");
        }
    }
}
