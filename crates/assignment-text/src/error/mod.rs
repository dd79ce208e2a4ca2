//! Errors that point into the text.

mod kind;
mod phrases;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use self::kind::{TextErrorKind, TextGradientError};
pub(crate) use self::phrases::counted_elements;
use crate::source::{Frame, framed, on_one_line};
pub use crate::synonyms::Synonym;
use assignments::ByteRange;
use assignments::indexing::ConditionError;
use lowered_ir::stack::NoStack;
use lowered_ir::{SourceSpan, SourceText};

/// An error in assignment text. Displays the message and the line with carets under the source span, then the
/// calls and repetitions around it.
pub struct TextError {
    kind: Box<TextErrorKind>,
    /// The span, within the calls and repetitions in whose expansion the error is.
    span: SourceSpan,
}

impl TextError {
    pub(crate) fn new(located: LocatedError, text: &SourceText) -> TextError {
        let LocatedError { kind, span, frame } = located;
        TextError { kind, span: framed(span, &frame, text) }
    }

    /// The calls and repetitions in whose expansion the error is, the innermost first: a description such as
    /// ``in function `softmax` ``, and the source span of the call.
    pub fn frames(&self) -> impl Iterator<Item = (&str, &SourceSpan)> {
        std::iter::successors(self.span.outer(), |(_, span)| span.outer())
    }

    /// The kind of the error.
    pub fn kind(&self) -> &TextErrorKind {
        &self.kind
    }

    /// The source span, in bytes of the text. The functions of the prelude come behind the text.
    pub fn span(&self) -> Range<usize> {
        self.span.bytes()
    }

    /// The number of the line at which the span begins, from 1.
    pub fn line(&self) -> usize {
        self.span.line()
    }

    /// The column at which the span begins, in characters from 1.
    pub fn column(&self) -> usize {
        self.span.column()
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.span.position(), self.kind, self.span)
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind.as_ref() {
            TextErrorKind::Node(error) => Some(error),
            _ => None,
        }
    }
}

/// The result of a pass, or of a part of one.
pub(crate) type Result<T, E = LocatedError> = std::result::Result<T, E>;

/// An error with a byte range, before the text is attached.
#[derive(Debug)]
pub(crate) struct LocatedError {
    kind: Box<TextErrorKind>,
    span: ByteRange,
    /// The calls and repetitions in whose expansion the error is, the innermost first.
    frame: Option<Arc<Frame>>,
}

impl LocatedError {
    /// Attaches the calls and repetitions around the error, unless it has some.
    pub(crate) fn within(self, frame: &Option<Arc<Frame>>) -> LocatedError {
        LocatedError { frame: self.frame.or_else(|| frame.clone()), ..self }
    }

    /// The error at the same place with another kind.
    pub(crate) fn map(self, f: impl FnOnce(TextErrorKind) -> TextErrorKind) -> LocatedError {
        LocatedError { kind: Box::new(f(*self.kind)), ..self }
    }
}

impl TextErrorKind {
    /// Attaches a byte range.
    pub(crate) fn at(self, span: &ByteRange) -> LocatedError {
        LocatedError { kind: Box::new(self), span: span.clone(), frame: None }
    }
}

/// The error for a construct in the place of others.
pub(crate) fn expected(expected: &str, found: impl Into<String>, span: &ByteRange) -> LocatedError {
    let (expected, found) = (expected.to_owned(), found.into());
    TextErrorKind::Syntax { expected, found }.at(span)
}

impl From<NoStack> for LocatedError {
    fn from(error: NoStack) -> LocatedError {
        TextErrorKind::Stack(error).at(&(0..0))
    }
}

impl From<NoStack> for TextError {
    fn from(error: NoStack) -> TextError {
        TextError::new(error.into(), &"".into())
    }
}

/// The error about a comparison that cannot bound a loop.
pub(crate) fn bad_bound(span: &ByteRange, why: &ConditionError, text: &str) -> LocatedError {
    let bound = on_one_line(text, span);
    TextErrorKind::Bound { bound, why: why.to_string() }.at(span)
}
