//! The places at which compilations and links can be observed.
//!
//! Whoever opens a backend gives it an observer; [`crate::observe`] has the one of the settings. Nothing else
//! depends on what observers do with what they see.

use std::{any::Any, fmt::Debug, fmt::Display, sync::Arc, time::Duration};

use assignments::{Assignments, Warning};
use codegen_core::{Code, Logging};
use device_runtime::Context;
use lowered_ir::ir::LoweredRoutine;
use tnode::TensorNode;

use crate::{error::OpenError, fallback::Fallback, routine::RunObserver, target::Target};

/// Observes the compilations of a backend.
pub(crate) trait CompileObserver: Any + Send + Sync {
    /// The inputs of stages that the observer needs at the end of a compilation.
    fn needs(&self) -> NeededInputs;

    /// Whether [`CompileObserver::pass`] and [`CompileObserver::compiled`] do anything. If not, a text that
    /// is compiled again may skip the stages.
    fn is_idle(&self) -> bool;

    /// Whether the observer shows passes in their order.
    fn shows_passes(&self) -> bool;

    /// `auto` tried a backend before the one that it opened.
    fn skipped(&self, name: &str, why: &OpenError);

    /// A pass has produced this routine.
    fn pass(&self, name: &str, routine: &LoweredRoutine);

    /// The forms of a kernel have been measured.
    fn tuned(&self, kernel: &str, result: &dyn Display);

    /// A routine is compiled, and its decisions are committed. Returns the observer of its links.
    fn compiled(&self, compilation: Compilation<'_>) -> Option<Arc<dyn LinkObserver>>;
}

/// Inputs of stages that are kept for an observer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeededInputs {
    /// The assignments, with their gradients.
    pub(crate) assignments: bool,
    /// The routine before the optimizer.
    pub(crate) routine: bool,
}

/// A finished compilation.
pub(crate) struct Compilation<'c> {
    /// The name of the routine.
    pub(crate) name: &'c str,
    /// The backend that compiled it.
    pub(crate) target: &'c Target,
    /// The code of each part, in the order in which parts run.
    pub(crate) parts: &'c [CompiledPart<'c>],
    /// The statements that fall back; none if there is one part.
    pub(crate) fallbacks: &'c [Fallback],
    /// The nodes by their position in the code's table.
    pub(crate) nodes: &'c [TensorNode],
    /// The views that were decided, which have no position.
    pub(crate) views: Vec<&'c TensorNode>,
    pub(crate) warnings: &'c [Warning],
    /// The time of each stage.
    pub(crate) took: &'c [(&'static str, Duration)],
    /// The assignments, if the observer needs them and there are any.
    pub(crate) assignments: Option<Assignments>,
    /// The routine before the optimizer, if the observer needs it.
    pub(crate) routine: Option<Arc<LoweredRoutine>>,
}

/// A part of a compiled routine, with the backend that runs it.
pub(crate) struct CompiledPart<'c> {
    pub(crate) target: &'c Target,
    pub(crate) code: &'c Arc<Code>,
}

/// Observes the links of a compiled routine.
pub(crate) trait LinkObserver: Debug + Send + Sync {
    /// Whether linked routines log or their runs are observed, so that each is linked by itself.
    fn observes_runs(&self) -> bool;

    /// The destination of the log of a routine that is being linked, if it logs.
    fn log(&self) -> Option<Logging>;

    /// The routine is linked. Returns the observer of its runs.
    fn linked(&self, context: &Context, codes: &[&Code]) -> Option<Arc<dyn RunObserver>>;
}
