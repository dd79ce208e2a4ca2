//! Places in the text, and the calls and repetitions around them.

use std::fmt;
use std::sync::Arc;

use assignments::ByteRange;
use lowered_ir::{SourceSpan, SourceText};

/// A construct that expansion replaced, and that an error in its expansion shows.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// The call, or the beginning of the repetition.
    pub(crate) span: ByteRange,
    /// The construct around it.
    pub(crate) outer: Option<Arc<Frame>>,
}

/// The nodes in place of a function's parameters and results, by name.
#[derive(Debug, Default)]
pub(crate) struct CallNodes {
    pub(crate) arrays: Vec<String>,
    /// The nodes that the values of the other parameters read.
    pub(crate) scalars: Vec<String>,
    pub(crate) results: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum FrameKind {
    /// A call of the function that the text defines at the byte `definition`.
    Call {
        function: String,
        definition: usize,
        /// The caller's nodes, if the function is one of the prelude.
        library: Option<Arc<CallNodes>>,
    },
    Repeat {
        letter: String,
        value: i64,
    },
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameKind::Call { function, .. } => write!(f, "in function `{function}`"),
            FrameKind::Repeat { letter, value } => write!(f, "for `{letter}` = {value}"),
        }
    }
}

/// A span within the calls and repetitions of `frame`.
pub(crate) fn framed(span: ByteRange, frame: &Option<Arc<Frame>>, text: &SourceText) -> SourceSpan {
    let span = SourceSpan::new(text.clone(), span);
    match frame {
        Some(frame) => span.within(frame.kind.to_string(), framed(frame.span.clone(), &frame.outer, text)),
        None => span,
    }
}

/// The text at a byte range.
pub(crate) fn excerpt<'a>(text: &'a str, span: &ByteRange) -> &'a str {
    text.get(span.clone()).unwrap_or_default()
}

/// The text at a byte range, with single spaces in place of line ends.
pub(crate) fn on_one_line(text: &str, span: &ByteRange) -> String {
    excerpt(text, span).split_whitespace().collect::<Vec<_>>().join(" ")
}
