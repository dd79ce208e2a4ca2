//! Why opening a backend or compiling failed.

use lowered_ir::{SourceSpan, pipeline::OptimizeError};

use crate::settings::SettingsError;

/// Why a backend could not be opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No backend has that name.
    #[error("there is no backend `{name}`; there are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are, each with what it is.
        known: String,
    },
    /// The backend exists, but not in this build.
    #[error("this build has no {what}: it was built without the feature `{feature}` of `arrayjit`")]
    NotBuilt {
        /// What it lacks.
        what: &'static str,
        /// The Cargo feature that brings it.
        feature: &'static str,
    },
    /// The settings do not load.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A setting is a number that no backend can use.
    #[error("setting `{key}` is {found}, expected at most {most}")]
    OutOfRange {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: usize,
        /// The largest value.
        most: usize,
    },
    /// The code generator does not know this processor.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The device did not start.
    #[error(transparent)]
    Device(#[from] device_runtime::Error),
    /// NVIDIA's driver or a device of it is not there, or too old.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] device_cuda::OpenError),
    /// No GPU adapter fits; the message lists those there are.
    #[cfg(feature = "wgpu")]
    #[error(transparent)]
    Adapter(#[from] device_wgpu::OpenError),
}

/// An error with the line and column that it is about in front of it, and that line below it.
fn located(place: Option<&SourceSpan>, error: &OptimizeError) -> String {
    match place {
        Some(span) => format!("line {}, column {}: {error}\n{span}", span.line(), span.column()),
        None => error.to_string(),
    }
}

/// Why assignments were not compiled. Nothing has changed: no node's memory mode, no device memory.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The assignment text is wrong; the message points into it.
    #[error(transparent)]
    Text(#[from] lowered_ir::assign::text::TextError),
    /// The assignments do not lower.
    #[error(transparent)]
    Lower(#[from] lowered_ir::lower::LowerError),
    /// The optimiser cannot honour a memory mode somebody specified.
    #[error("{}", located(place.as_ref(), source))]
    Optimize {
        /// Why not.
        source: OptimizeError,
        /// The first access to the node; none for assignments that were built without a text.
        place: Option<SourceSpan>,
    },
    /// The decisions about memory modes conflict with what was decided elsewhere meanwhile.
    #[error(transparent)]
    Modes(#[from] tnode::Error),
    /// The routine could not be scheduled for the target.
    #[error(transparent)]
    Schedule(#[from] scheduling::ScheduleError),
    /// The code generator refused.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The code generator returned code of another routine, which is a bug of it.
    #[error(transparent)]
    Code(#[from] codegen_core::CodeError),
    /// The code generator refused, and the backend to fall back to does not open.
    #[error("what is refused cannot fall back: {source}")]
    FallbackOpen {
        /// Why it does not open.
        source: Box<OpenError>,
    },
    /// The code generator refused, and so does that of the backend to fall back to.
    #[error("routine `{routine}`: refused ({what}), and not done by the fallback `{to}` either: {source}")]
    FallbackRefused {
        /// The routine.
        routine: String,
        /// What was refused, and why.
        what: String,
        /// The backend to fall back to.
        to: String,
        /// Its answer.
        source: Box<CompileError>,
    },
    /// What a stream has merged is read by statements that fall back, and the backend cannot bring it there.
    #[error(
        "routine `{routine}`: the merge buffer of node `{node}` is on {backend}, which does not read it ({what}), and nobody else can"
    )]
    FallbackMerge {
        /// The routine.
        routine: String,
        /// The node.
        node: String,
        /// The backend whose streams have the merge buffer.
        backend: String,
        /// What was refused, and why.
        what: String,
    },
    /// A member of a batch was not compiled, and so the others were not either.
    #[error("member {position} of the batch, `{name}`: {source}")]
    Batch {
        /// Its position, from 0.
        position: usize,
        /// The name of its routine.
        name: String,
        /// Why not.
        source: Box<CompileError>,
    },
    /// A stage needs more loops, statements or memory than a routine may have.
    #[error("the routine is too large after {stage}: {error}; split it into several")]
    TooLarge {
        /// The stage.
        stage: &'static str,
        /// Which limit.
        error: lowered_ir::verify::VerifyError,
    },
    /// Our bug: a stage produced IR that does not verify.
    #[error("this is a bug in arrayjit: after {stage}, {error}")]
    Verify {
        /// The stage whose result is wrong.
        stage: &'static str,
        /// What is wrong with it.
        error: lowered_ir::verify::VerifyError,
    },
}
