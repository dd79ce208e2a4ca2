//! Why assignments were not compiled.

use std::fmt;

use lowered_ir::{SourceSpan, pipeline::OptimizeError, stack::NoStack};

use super::OpenError;
use crate::tune::TuneError;

/// Why assignments were not compiled. Nothing has changed: no node's memory mode, no device memory.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CompileError {
    /// The assignment text is wrong; the message points into it.
    #[error(transparent)]
    Text(#[from] assignment_text::TextError),
    /// There is no memory for the stack on which routines are compiled.
    #[error(transparent)]
    Stack(#[from] NoStack),
    /// A gradient of the program does not exist.
    #[error(transparent)]
    Gradient(#[from] autodiff::GradientError),
    /// The steps behind the end of a scan cannot leave a node as it is.
    #[error(transparent)]
    EarlyEnd(#[from] assignments::EarlyEndError),
    /// The assignments do not lower.
    #[error(transparent)]
    Lower(#[from] assignments::lower::LowerError),
    /// A routine of the loop IR was given with too few or too many nodes.
    #[error("routine `{routine}` has {expected} nodes, but {found} were given")]
    NodeCount { routine: String, expected: usize, found: usize },
    /// The optimizer cannot honor a requested memory mode.
    #[error("{}", located(place.as_deref(), source))]
    Optimize { source: OptimizeError, place: Option<Box<SourceSpan>> },
    /// The decisions about memory modes conflict with decisions that another compilation made meanwhile.
    #[error(transparent)]
    Modes(#[from] tnode::TensorNodeError),
    /// The routine could not be scheduled for the target.
    #[error(transparent)]
    Schedule(#[from] scheduling::ScheduleError),
    /// The file of the setting `tune` cannot be written, or has a choice that does not fit.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The code generator rejected the routine.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The code generator returned code of another routine: a bug of the code generator.
    #[error(transparent)]
    Code(#[from] codegen_core::CodeError),
    /// The scheduler or the code generator rejected the routine, and the backend has no fallback.
    #[error("{source}; the setting `fallback = \"{to}\"` runs the rejected statements on the backend `{to}`")]
    NoFallback { source: Box<CompileError>, to: &'static str },
    /// The code generator rejected the routine, and the fallback backend does not open.
    #[error("rejected statements cannot fall back: {source}")]
    FallbackOpen { source: Box<OpenError> },
    /// Both the code generator and the fallback's code generator rejected a part of the routine.
    #[error(
        "routine `{routine}`: rejected ({what}), and the fallback `{to}` does not support it either: {source}"
    )]
    FallbackRejected { routine: String, what: String, to: String, source: Box<CompileError> },
    /// The scheduler or the code generator rejected a statement of a text, which no fallback runs.
    #[error("{}", located(Some(&**place), source))]
    Rejected { source: Box<CompileError>, place: Box<SourceSpan> },
    /// Statements that fall back read a merge buffer that the backend cannot copy for them.
    #[error(
        "routine `{routine}`: the merge buffer of node `{node}` is on {backend}, which does not read it ({what}), and no other backend can"
    )]
    FallbackMerge { routine: String, node: String, backend: String, what: String },
    /// A member of a batch did not compile, so no member was compiled.
    #[error("member {position} of the batch, `{name}`: {source}")]
    Batch { position: usize, name: String, source: Box<CompileError> },
    /// A stage needs more loops, statements or memory than a routine may have.
    #[error("the routine is too large after {stage}: {error}; split it into several")]
    TooLarge { stage: &'static str, error: lowered_ir::verify::VerifyError },
    /// Our bug: a stage produced IR that does not verify.
    #[error("this is a bug in arrayjit: after {stage}, {error}")]
    Verify { stage: &'static str, error: lowered_ir::verify::VerifyError },
}

/// Formats an error after the line and column of its place in the text, with that source line below it.
fn located(place: Option<&SourceSpan>, error: &dyn fmt::Display) -> String {
    match place {
        Some(span) => format!("{}: {error}\n{span}", span.position()),
        None => error.to_string(),
    }
}
