//! Source spans of steps, for messages about them.

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
pub struct Origin(Option<Arc<StatementSpans>>);

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

static UNKNOWN: Origin = Origin(None);

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
        Origin(Some(Arc::new(StatementSpans { text: text.clone(), statement, target, operands })))
    }

    /// The span of the statement, from its first target to its last constraint.
    pub fn statement(&self) -> Option<SourceSpan> {
        self.0.as_deref().map(|places| places.statement.clone())
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
        let places = self.0.as_deref()?;
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
