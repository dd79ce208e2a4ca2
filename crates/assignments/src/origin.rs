//! Where steps come from: their source spans, for messages about them, and scans whose steps they copy.

use std::ops::Range;
use std::sync::Arc;

use lowered_ir::{SourceSpan, SourceText};

/// A range of bytes of a text.
pub type ByteRange = Range<usize>;

/// The source spans of a step: of its statement and of each access in it. Steps that are built without a text
/// have none.
///
/// All origins are equal, so that equal steps compare equal even if they come from different texts.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    spans: Option<Arc<StatementSpans>>,
    is_copied: bool,
}

/// The byte ranges of an operand and of each of its indices.
#[derive(Clone, Debug, Default)]
pub struct AccessSpan {
    /// The access, or the number.
    pub whole: Range<usize>,
    /// One range per index; none for an operand without indices.
    pub indices: Vec<Range<usize>>,
}

#[derive(Debug)]
struct StatementSpans {
    text: SourceText,
    /// The statement, within the calls and repetitions that it comes from.
    statement: SourceSpan,
    target: AccessSpan,
    operands: Vec<AccessSpan>,
}

static UNKNOWN: Origin = Origin { spans: None, is_copied: false };

impl Origin {
    /// The origin of a step that comes from no text.
    pub fn unknown() -> &'static Origin {
        &UNKNOWN
    }

    /// The spans of a step whose statement is at `statement` of the text.
    pub fn new(
        text: &SourceText,
        statement: SourceSpan,
        target: AccessSpan,
        operands: Vec<AccessSpan>,
    ) -> Origin {
        let spans = StatementSpans { text: text.clone(), statement, target, operands };
        Origin { spans: Some(Arc::new(spans)), is_copied: false }
    }

    /// The origin of a step that is a scan's step for one value of its letter.
    pub(crate) fn copied(self) -> Origin {
        Origin { is_copied: true, ..self }
    }

    /// Whether the step is a copy of a scan's step. The one of the last value may have no effect.
    pub(crate) fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// The span of the statement, from its first target to its last constraint.
    pub fn statement(&self) -> Option<SourceSpan> {
        self.spans.as_deref().map(|places| places.statement.clone())
    }

    /// The span of the access to the node written; for the node of a subexpression, the span of the
    /// subexpression.
    pub fn target(&self) -> Option<SourceSpan> {
        self.place(|places| Some(&places.target.whole))
    }

    /// The span of the index on `axis` of the node written; the span of the access if the text has no such
    /// index.
    pub fn target_index(&self, axis: usize) -> Option<SourceSpan> {
        self.place(|places| Some(places.target.indices.get(axis).unwrap_or(&places.target.whole)))
    }

    /// The span of the operand at position `at`, in the order of [`Accum::operands`](super::Accum::operands).
    /// A fill has one operand, the call.
    pub fn operand(&self, at: usize) -> Option<SourceSpan> {
        self.place(|places| Some(&places.operands.get(at)?.whole))
    }

    /// The span of the index on `axis` of an operand; the span of the operand if the text has no such index.
    pub fn operand_index(&self, at: usize, axis: usize) -> Option<SourceSpan> {
        self.place(|places| {
            let operand = places.operands.get(at)?;
            Some(operand.indices.get(axis).unwrap_or(&operand.whole))
        })
    }

    fn place(&self, of: impl FnOnce(&StatementSpans) -> Option<&Range<usize>>) -> Option<SourceSpan> {
        let places = self.spans.as_deref()?;
        let span = SourceSpan::new(places.text.clone(), of(places)?.clone());
        Some(match places.statement.outer() {
            Some((description, outer)) => span.within(description, outer.clone()),
            None => span,
        })
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}
