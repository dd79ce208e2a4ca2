//! Why opening a backend or compiling failed.

use std::fmt;

use lowered_ir::{SourceSpan, pipeline::OptimizeError, stack::NoStack};

use crate::{settings::SettingsError, tune::TuneError};

/// Why a backend could not be opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No backend has that name.
    #[error(
        "there is no backend `{name}`{}; there are: {known}. A program knows a backend of another crate once it links the crate (`use CRATE as _;`) or calls `Backend::register`",
        suggestion(near.as_deref())
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The most similar name of a backend, if one is similar.
        near: Option<String>,
        /// The names of all backends, each with its description.
        known: String,
    },
    /// Two crates of the program register a backend of that name.
    #[error(
        "two crates of this program register a backend `{name}`: `{first}` and `{second}`; link one of them"
    )]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The description of one of the two backends.
        first: String,
        /// The description of the other one.
        second: String,
    },
    /// A registered backend does not open.
    #[error("the registered backend `{name}` does not open: {source}")]
    Registered {
        /// The name of the backend.
        name: String,
        /// The error of the crate that registered it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// None of the backends that `auto` may choose opens.
    #[error("no backend that `auto` may choose opens: {}", reasons(tried))]
    NoneOpens {
        /// The names of these backends, in order, each with the reason.
        tried: Vec<(&'static str, OpenError)>,
    },
    /// The adapter emulates a GPU on the CPU, which is slower than native code.
    #[error(
        "adapter {adapter} emulates a GPU on the CPU, and `auto` chooses GPUs only; the name `wgpu` opens it"
    )]
    SoftwareAdapter {
        /// Position, name and driver of the adapter.
        adapter: String,
    },
    /// The backend exists, but not in this build.
    #[error("this build has no {what}: it was built without the feature `{feature}` of `arrayjit`")]
    NotBuilt {
        /// The missing part of the build.
        what: &'static str,
        /// The Cargo feature that adds it.
        feature: &'static str,
    },
    /// There is no memory for the stack on which backends are opened.
    #[error(transparent)]
    Stack(#[from] NoStack),
    /// The settings do not load.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A setting is a number that no backend can use.
    #[error("setting `{key}` is {found}, expected at most {most}")]
    OutOfRange {
        /// The key of the setting.
        key: &'static str,
        /// Its value.
        found: usize,
        /// The largest value.
        most: usize,
    },
    /// The file of the setting `tune` cannot be read.
    #[error("setting `tune`: {0}")]
    Tune(Box<TuneError>),
    /// The code generator does not know this processor.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The code generator claims capabilities that contradict one another.
    #[error(transparent)]
    Caps(#[from] codegen_core::CapsError),
    /// The device did not start.
    #[error(transparent)]
    Device(#[from] device_runtime::RunError),
    /// NVIDIA's driver or one of its devices is missing or too old.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] device_cuda::OpenError),
    /// No GPU adapter fits; the message lists all adapters.
    #[cfg(feature = "wgpu")]
    #[error(transparent)]
    Adapter(#[from] device_wgpu::OpenError),
}

impl From<TuneError> for OpenError {
    fn from(error: TuneError) -> OpenError {
        OpenError::Tune(error.into())
    }
}

impl From<TuneError> for CompileError {
    fn from(error: TuneError) -> CompileError {
        CompileError::Tune(error.into())
    }
}

fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// The reasons why backends do not open, each after the name.
fn reasons(tried: &[(&'static str, OpenError)]) -> String {
    tried.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
}

/// Formats an error after the line and column of its place in the text, with that source line below it.
fn located(place: Option<&SourceSpan>, error: &dyn fmt::Display) -> String {
    match place {
        Some(span) => format!("{}: {error}\n{span}", span.position()),
        None => error.to_string(),
    }
}

/// Why the nodes that a text declares did not get their initial values.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InitialiseError {
    /// The initial values do not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device failed.
    #[error(transparent)]
    Run(#[from] device_runtime::RunError),
}

/// Why assignments were not compiled. Nothing has changed: no node's memory mode, no device memory.
#[derive(thiserror::Error)]
#[non_exhaustive]
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
    /// The assignments do not lower.
    #[error(transparent)]
    Lower(#[from] assignments::lower::LowerError),
    /// A routine of the loop IR was given with too few or too many nodes.
    #[error("routine `{routine}` has {expected} nodes, but {found} were given")]
    NodeCount {
        /// The name of the routine.
        routine: String,
        /// The number of its nodes.
        expected: usize,
        /// The number of nodes that were given.
        found: usize,
    },
    /// The optimiser cannot honour a requested memory mode.
    #[error("{}", located(place.as_deref(), source))]
    Optimize {
        /// Why the mode cannot be honoured.
        source: OptimizeError,
        /// The first access to the node; none for assignments that were built without a text.
        place: Option<Box<SourceSpan>>,
    },
    /// The decisions about memory modes conflict with decisions that another compilation made meanwhile.
    #[error(transparent)]
    Modes(#[from] tnode::Error),
    /// The routine could not be scheduled for the target.
    #[error(transparent)]
    Schedule(#[from] scheduling::ScheduleError),
    /// The file of the setting `tune` cannot be written, or has a choice that does not fit.
    #[error("setting `tune`: {0}")]
    Tune(Box<TuneError>),
    /// The code generator rejected the routine.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The code generator returned code of another routine: a bug of the code generator.
    #[error(transparent)]
    Code(#[from] codegen_core::CodeError),
    /// The scheduler or the code generator rejected the routine, and the backend has no fallback.
    #[error("{source}; the setting `fallback = \"{to}\"` runs the rejected statements on the backend `{to}`")]
    NoFallback {
        /// The rejection.
        source: Box<CompileError>,
        /// The name of a backend that the setting `fallback` may select.
        to: &'static str,
    },
    /// The code generator rejected the routine, and the fallback backend does not open.
    #[error("rejected statements cannot fall back: {source}")]
    FallbackOpen {
        /// Why it does not open.
        source: Box<OpenError>,
    },
    /// Both the code generator and the fallback's code generator rejected a part of the routine.
    #[error(
        "routine `{routine}`: rejected ({what}), and the fallback `{to}` does not support it either: {source}"
    )]
    FallbackRejected {
        /// The name of the routine.
        routine: String,
        /// The unsupported operation or type, and the reason.
        what: String,
        /// The name of the fallback backend.
        to: String,
        /// The error of the fallback backend.
        source: Box<CompileError>,
    },
    /// The scheduler or the code generator rejected a statement of a text, which no fallback runs.
    #[error("{}", located(Some(&**place), source))]
    Rejected {
        /// The rejection.
        source: Box<CompileError>,
        /// The first access to the node that the statement writes.
        place: Box<SourceSpan>,
    },
    /// Statements that fall back read a merge buffer that the backend cannot copy for them.
    #[error(
        "routine `{routine}`: the merge buffer of node `{node}` is on {backend}, which does not read it ({what}), and no other backend can"
    )]
    FallbackMerge {
        /// The name of the routine.
        routine: String,
        /// The name of the node.
        node: String,
        /// The backend whose stream has the merge buffer.
        backend: String,
        /// The unsupported operation or type, and the reason.
        what: String,
    },
    /// A member of a batch did not compile, so no member was compiled.
    #[error("member {position} of the batch, `{name}`: {source}")]
    Batch {
        /// Its position, from 0.
        position: usize,
        /// The name of its routine.
        name: String,
        /// The member's error.
        source: Box<CompileError>,
    },
    /// A stage needs more loops, statements or memory than a routine may have.
    #[error("the routine is too large after {stage}: {error}; split it into several")]
    TooLarge {
        /// The name of the stage.
        stage: &'static str,
        /// The exceeded limit.
        error: lowered_ir::verify::VerifyError,
    },
    /// Our bug: a stage produced IR that does not verify.
    #[error("this is a bug in arrayjit: after {stage}, {error}")]
    Verify {
        /// The stage whose result is wrong.
        stage: &'static str,
        /// The violated invariant.
        error: lowered_ir::verify::VerifyError,
    },
}
