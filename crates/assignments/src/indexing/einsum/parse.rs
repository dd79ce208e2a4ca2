//! The grammar of einsum text.

use super::{LocatedSpecError, SpecErrorKind};
use crate::origin::ByteRange;

/// The axes of one array, in the order of its dimensions.
#[derive(Debug)]
pub(super) struct OperandSpec {
    pub(super) items: Vec<(Item, ByteRange)>,
    pub(super) span: ByteRange,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    /// An ellipsis: any number of axes, by the name of the row variable.
    Row(String),
    Axis(Axis),
}

#[derive(Clone, Debug)]
pub(super) enum Axis {
    Label(String),
    /// `_`
    Anonymous,
    Fixed(i64),
    WindowSpec(WindowSpec),
    /// The concatenation of the axes of these labels.
    Concat(Vec<String>),
}

/// `stride*output + dilation*kernel`, or `stride*output + offset` without a kernel.
#[derive(Clone, Debug)]
pub(super) struct WindowSpec {
    pub(super) stride: i64,
    pub(super) output: String,
    pub(super) padded: bool,
    pub(super) kernel: Option<(i64, String)>,
    pub(super) offset: i64,
}

/// The arrays of a text.
#[derive(Debug)]
pub(super) struct SpecArrays {
    pub(super) read: Vec<OperandSpec>,
    pub(super) written: Vec<OperandSpec>,
}

impl SpecArrays {
    /// Rejects concatenated axes.
    pub(super) fn reject_concatenation(&self) -> Result<(), LocatedSpecError> {
        let mut axes = self.read.iter().chain(&self.written).flat_map(|operand| &operand.items);
        match axes.find(|(item, _)| matches!(item, Item::Axis(Axis::Concat(_)))) {
            Some((_, span)) => Err(SpecErrorKind::Concatenation.at(span)),
            None => Ok(()),
        }
    }
}

pub(super) fn parse(spec: &str) -> Result<SpecArrays, LocatedSpecError> {
    let words = spec.contains([',', '*', '+', '<']);
    let mut parser = EinsumParser { tokens: tokens(spec, words)?, at: 0, words };
    let mut read = vec![parser.operand()?];
    loop {
        match parser.next() {
            (EinsumToken::Sign(";"), _) => read.push(parser.operand()?),
            (EinsumToken::Sign("=>"), _) => break,
            (token, span) => return Err(expected("an axis, `;` or `=>`", &token, &span)),
        }
    }
    let mut written = vec![parser.operand()?];
    loop {
        match parser.next() {
            (EinsumToken::Sign(";"), _) => written.push(parser.operand()?),
            (EinsumToken::End, _) => return Ok(SpecArrays { read, written }),
            (token, span) => return Err(expected("an axis or the end of the text", &token, &span)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum EinsumToken {
    Word(String),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 13] = ["...", "..", "->", "=>", ";", ",", "|", "_", "*", "+", "<", "=", "^"];

fn expected(what: &'static str, token: &EinsumToken, span: &ByteRange) -> LocatedSpecError {
    let found = match token {
        EinsumToken::Word(word) => format!("`{word}`"),
        EinsumToken::Sign(sign) => format!("`{sign}`"),
        EinsumToken::End => "the end of the text".to_owned(),
    };
    SpecErrorKind::Syntax { expected: what, found }.at(span)
}

/// Splits a text into tokens. With `words`, a word is a sequence of letters, digits and `_`; without, it is a
/// single character, except in the name of an ellipsis.
fn tokens(spec: &str, words: bool) -> Result<Vec<(EinsumToken, ByteRange)>, LocatedSpecError> {
    let mut tokens: Vec<(EinsumToken, ByteRange)> = Vec::new();
    let mut at = 0;
    while let Some(first) = spec[at..].chars().next() {
        let rest = &spec[at..];
        let in_ellipsis = matches!(tokens.last(), Some((EinsumToken::Sign(".."), _)));
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let run = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let run = if words || in_ellipsis { run } else { run.min(first.len_utf8()) };
        let (token, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if run > 0 && &rest[..run] != "_" {
            (EinsumToken::Word(rest[..run].to_owned()), run)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (EinsumToken::Sign(sign), sign.len())
        } else {
            let found = format!("`{first}`");
            let expected = "an axis, `...`, `|`, `->`, `;` or `=>`";
            return Err(SpecErrorKind::Syntax { expected, found }.at(&(at..at + first.len_utf8())));
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens.push((EinsumToken::End, spec.len()..spec.len()));
    Ok(tokens)
}

/// A row of axes. `None` stands for `...`, which is named after the kind of the row later.
type Row = Vec<(Option<Item>, ByteRange)>;

struct EinsumParser {
    /// Ends with [`EinsumToken::End`].
    tokens: Vec<(EinsumToken, ByteRange)>,
    at: usize,
    words: bool,
}

impl EinsumParser {
    fn peek(&self) -> &(EinsumToken, ByteRange) {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> (EinsumToken, ByteRange) {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn accept(&mut self, sign: &'static str) -> bool {
        let accepted = self.peek().0 == EinsumToken::Sign(sign);
        self.at += usize::from(accepted);
        accepted
    }

    fn operand(&mut self) -> Result<OperandSpec, LocatedSpecError> {
        let start = self.peek().1.start;
        let mut row = self.row()?;
        let batch = if self.accept("|") { std::mem::replace(&mut row, self.row()?) } else { Row::new() };
        let input = if self.accept("->") { std::mem::replace(&mut row, self.row()?) } else { Row::new() };
        let rows = [(batch, "batch"), (row, "output"), (input, "input")];
        let named = |(row, kind): (Row, &str)| {
            let name = |(item, span): (Option<Item>, ByteRange)| {
                (item.unwrap_or_else(|| Item::Row(kind.to_owned())), span)
            };
            row.into_iter().map(name).collect::<Vec<_>>()
        };
        let items = rows.into_iter().flat_map(named).collect();
        let end = self.tokens[..self.at.min(self.tokens.len())].last().map_or(start, |(_, span)| span.end);
        Ok(OperandSpec { items, span: start..end.max(start) })
    }

    fn row(&mut self) -> Result<Row, LocatedSpecError> {
        let mut row = Row::new();
        let mut separated = true;
        loop {
            let (token, span) = self.peek().clone();
            match token {
                EinsumToken::Sign(",") if !separated => {
                    self.next();
                    separated = true;
                }
                EinsumToken::Sign("..." | "..") => {
                    if row.iter().any(|(item, _)| matches!(item, None | Some(Item::Row(_)))) {
                        return Err(expected("at most one ellipsis in a row", &token, &span));
                    }
                    row.push(self.ellipsis()?);
                    // An ellipsis needs no comma after it, but may have one.
                    self.accept(",");
                    separated = true;
                }
                EinsumToken::Word(_) | EinsumToken::Sign("_") if separated || !self.words => {
                    let (axis, span) = self.axis()?;
                    row.push((Some(Item::Axis(axis)), span));
                    separated = false;
                }
                EinsumToken::Word(_) | EinsumToken::Sign("_") => {
                    return Err(expected("`,` between axes", &token, &span));
                }
                _ => return Ok(row),
            }
        }
    }

    fn ellipsis(&mut self) -> Result<(Option<Item>, ByteRange), LocatedSpecError> {
        let (token, start) = self.next();
        if token == EinsumToken::Sign("...") {
            return Ok((None, start));
        }
        let EinsumToken::Word(name) = self.peek().0.clone() else {
            let (token, span) = self.peek();
            return Err(expected("the name of the ellipsis, as in `..r..`", token, span));
        };
        self.next();
        self.accept(",");
        if !self.accept("..") {
            let (token, span) = self.peek();
            return Err(expected("`..`", token, span));
        }
        let end = self.tokens[self.at - 1].1.end;
        Ok((Some(Item::Row(name)), start.start..end))
    }

    fn axis(&mut self) -> Result<(Axis, ByteRange), LocatedSpecError> {
        let (token, span) = self.next();
        let EinsumToken::Word(word) = token else { return Ok((Axis::Anonymous, span)) };
        let (stride, output) = match integer(&word, &span)? {
            Some(stride) if self.accept("*") => (stride, self.label()?),
            Some(fixed) => return Ok((Axis::Fixed(fixed), span)),
            None if self.peek().0 == EinsumToken::Sign("^") => return self.concat(word, span),
            None => (1, word),
        };
        let unpadded = self.accept("<");
        let marked = unpadded || self.accept("=");
        let (kernel, offset) = if self.accept("+") { self.kernel()? } else { (None, 0) };
        let span = span.start..self.tokens[self.at - 1].1.end;
        if !marked && stride == 1 && kernel.is_none() && offset == 0 {
            return Ok((Axis::Label(output), span));
        }
        Ok((Axis::WindowSpec(WindowSpec { stride, output, padded: !unpadded, kernel, offset }), span))
    }

    /// Parses the labels after `first`, each after a `^`.
    fn concat(&mut self, first: String, span: ByteRange) -> Result<(Axis, ByteRange), LocatedSpecError> {
        let mut labels = vec![first];
        while self.accept("^") {
            labels.push(self.label()?);
        }
        Ok((Axis::Concat(labels), span.start..self.tokens[self.at - 1].1.end))
    }

    /// Parses the term after the `+` of a window: a kernel or an offset.
    fn kernel(&mut self) -> Result<(Option<(i64, String)>, i64), LocatedSpecError> {
        let (token, span) = self.next();
        let EinsumToken::Word(word) = token else {
            return Err(expected("a label or an integer", &token, &span));
        };
        Ok(match integer(&word, &span)? {
            Some(dilation) if self.accept("*") => (Some((dilation, self.label()?)), 0),
            Some(offset) => (None, offset),
            None => (Some((1, word)), 0),
        })
    }

    fn label(&mut self) -> Result<String, LocatedSpecError> {
        match self.next() {
            (EinsumToken::Word(word), span) if integer(&word, &span)?.is_none() => Ok(word),
            (token, span) => Err(expected("a label", &token, &span)),
        }
    }
}

/// The value of an integer word; `None` if the word does not begin with a digit.
fn integer(word: &str, span: &ByteRange) -> Result<Option<i64>, LocatedSpecError> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    // The limit ensures that products of strides and extents do not overflow.
    match word.parse::<u32>() {
        Ok(value) => Ok(Some(i64::from(value))),
        Err(_) => {
            Err(SpecErrorKind::Syntax { expected: "an integer below 2³²", found: format!("`{word}`") }
                .at(span))
        }
    }
}
