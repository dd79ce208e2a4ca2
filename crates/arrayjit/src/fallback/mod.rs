//! Fallback: statements that a backend's code generator rejects run on another backend.
//!
//! A rejected routine is divided, between its top-level statements, into parts ([`divide`]); each part is an
//! ordinary routine, compiled for the backend itself or for its fallback backend ([`parts`]). A linked
//! routine runs its parts in order and copies the nodes that one backend writes and the other reads through
//! the host ([`linked`]). Devices and code generators are not aware of it.
//!
//! Invariants:
//!
//! * After a run, the routine's context contains the same values as after an undivided run. The fallback's
//!   memory and stream belong to the linked routine, and a run reads no values that an earlier run left
//!   there.
//! * A local node that several parts touch becomes a separate node of each linked routine; others stay local
//!   to their part.
//! * Parts on the fallback read no merge buffer ([`merge_copy`]).
//! * Runs of divided routines of one backend do not interleave.
//! * A routine that compiles as a whole takes none of these steps.

mod divide; // the division of statements
mod linked; // contexts, copies, runs, failures
mod merge_copy; // materialised merge buffers
mod parts; // code for each part, and the copies between them

use std::{
    fmt,
    ops::Range,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    backend::Backend,
    error::OpenError,
    settings::{FallbackSetting, Settings},
};

pub(crate) use linked::LinkedParts;
pub(crate) use parts::{DividedCode, compile, first_rejected};

/// Statements that a backend rejects and another one runs. Displayed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fallback {
    /// The routine's name.
    pub routine: String,
    /// The name of the backend that rejects them.
    pub from: String,
    /// The name of the backend that runs them.
    pub to: String,
    /// Their positions among the top-level statements of the optimised routine.
    pub statements: Range<usize>,
    /// The number of top-level statements of the routine.
    pub num_statements: usize,
    /// The names of the nodes that they write.
    pub writes: Vec<String>,
    /// The unsupported operation, with its operand type, or the unsupported type of a node.
    pub what: String,
    /// The missing capability of the backend.
    pub why: String,
    /// The statements in the loop IR.
    pub text: String,
}

impl Fallback {
    /// The line, then the statements in the loop IR.
    pub fn explain(&self) -> String {
        format!("{self}\n{}", self.text)
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fallback { routine, from, to, statements, num_statements, writes, what, why, .. } = self;
        let first = statements.start + 1;
        let (which, falls) = match statements.len() {
            0 | 1 => (format!("statement {first}"), "falls"),
            _ => (format!("statements {first} to {}", statements.end), "fall"),
        };
        let writes: Vec<String> = writes.iter().map(|name| format!("`{name}`")).collect();
        let writes = if writes.is_empty() { "no node".to_owned() } else { writes.join(", ") };
        write!(
            f,
            "routine `{routine}`: {which} of {num_statements} ({writes}) {falls} back to {to}: {from} does not do {what}: {why}"
        )
    }
}

/// How much of a backend's work its fallback has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCount {
    /// Kernels compiled for the fallback, in the routines compiled so far.
    pub kernels: u64,
    /// Runs of routines with such kernels.
    pub runs: u64,
}

/// The fallback backend of a backend, opened at the first use, and counts of its use.
#[derive(Debug, Default)]
pub(crate) struct FallbackState {
    /// Opened when first needed.
    backend: OnceLock<Backend>,
    kernels: AtomicU64,
    runs: AtomicU64,
    /// Locked during each run of a divided routine.
    order: Mutex<()>,
}

impl FallbackState {
    fn count_kernels(&self, kernels: usize) {
        self.kernels.fetch_add(kernels as u64, Ordering::Relaxed);
    }

    /// Counts a run, and waits until no other run is in progress.
    fn begin_run(&self) -> MutexGuard<'_, ()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend {
    /// How many kernels were compiled and runs made with the fallback.
    /// [`Compiled::fallbacks`](crate::Compiled::fallbacks) lists the statements of a routine that fall back,
    /// with reasons.
    pub fn fallback_count(&self) -> FallbackCount {
        let FallbackState { kernels, runs, .. } = self.fallback_state();
        FallbackCount { kernels: kernels.load(Ordering::Relaxed), runs: runs.load(Ordering::Relaxed) }
    }

    /// A new backend with the same code generator and device, and `other` as its fallback instead of the one
    /// that the settings name. Settings that forbid fallback still forbid it. Statements that `other` rejects
    /// too are an error, even if `other` has a fallback of its own.
    #[must_use]
    pub fn falling_back_to(&self, other: &Backend) -> Backend {
        let backend = self.reopened();
        backend.fallback_state().backend.get_or_init(|| other.clone());
        backend
    }

    /// The backend that runs rejected kernels, if the settings allow one: [`Settings::fallback`].
    ///
    /// # Errors
    ///
    /// The error of opening it.
    pub fn fallback(&self) -> Result<Option<&Backend>, OpenError> {
        let opened = &self.fallback_state().backend;
        if let (Some(backend), true) = (opened.get(), self.settings().fallback != FallbackSetting::None) {
            return Ok(Some(backend));
        }
        let from_gpu = self.codegen().caps().workgroups.is_some();
        let Some(name) = self.settings().fallback.backend(self.name(), from_gpu) else { return Ok(None) };
        let settings =
            Settings { backend: name.into(), fallback: FallbackSetting::None, ..self.settings().clone() };
        let backend = Backend::open_with(name, settings)?;
        Ok(Some(opened.get_or_init(|| backend)))
    }
}
