//! Fallback: what a backend's code generator refuses runs on another backend.
//!
//! A refused routine is cut, between its top-level statements, into parts ([`divide`]); each part is an ordinary routine, compiled
//! for the backend itself or for its fallback backend ([`parts`]). A linked routine runs its parts in order and copies, through the
//! host, what one part writes and another reads ([`linked`]). Devices and code generators know nothing of it.
//!
//! Invariants:
//!
//! * Whoever holds the routine's context finds in it what an undivided run would leave there. The fallback's memory and stream
//!   belong to the linked routine, and hold between runs nothing that a later run reads.
//! * A local node that several parts touch is a node of its own for each linked routine; others stay local to their part.
//! * Parts on the fallback read no merge buffer ([`land`]).
//! * Runs of divided routines of one backend follow each other whole.
//! * Nothing of this is done for a routine that compiles.

mod divide; // which statements go where
mod land; // merge buffers
mod linked; // contexts, copies, runs, failures
mod parts; // code for each part, and what is copied between them

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
pub(crate) use parts::{DividedCode, compile};

/// Statements that a backend refuses and another one runs. Prints as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fallback {
    /// The routine.
    pub routine: String,
    /// The backend that refuses them.
    pub from: String,
    /// The backend that runs them.
    pub to: String,
    /// Their positions among the statements of the optimised routine, nested ones not counted.
    pub statements: Range<usize>,
    /// How many statements the routine has.
    pub of: usize,
    /// The names of the nodes that they write.
    pub writes: Vec<String>,
    /// What is refused: an operation, with the type it is applied to, or a type of nodes.
    pub what: String,
    /// What the backend would need.
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
        let Fallback { routine, from, to, statements, of, writes, what, why, .. } = self;
        let first = statements.start + 1;
        let (which, falls) = match statements.len() {
            0 | 1 => (format!("statement {first}"), "falls"),
            _ => (format!("statements {first} to {}", statements.end), "fall"),
        };
        let writes: Vec<String> = writes.iter().map(|name| format!("`{name}`")).collect();
        let writes = if writes.is_empty() { "no node".to_owned() } else { writes.join(", ") };
        write!(
            f,
            "routine `{routine}`: {which} of {of} ({writes}) {falls} back to {to}: {from} does not do {what}: {why}"
        )
    }
}

/// How much of a backend's work its fallback has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCount {
    /// Kernels compiled for the fallback, in the routines compiled so far.
    pub kernels: u64,
    /// Runs of routines that have such kernels.
    pub runs: u64,
}

/// What a backend keeps about its fallback.
#[derive(Debug, Default)]
pub(crate) struct Refuge {
    /// Opened when first needed.
    backend: OnceLock<Backend>,
    kernels: AtomicU64,
    runs: AtomicU64,
    /// Held during each run of a divided routine.
    order: Mutex<()>,
}

impl Refuge {
    fn count_kernels(&self, kernels: usize) {
        self.kernels.fetch_add(kernels as u64, Ordering::Relaxed);
    }

    /// Counts a run, and waits for its turn.
    fn begin_run(&self) -> MutexGuard<'_, ()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend {
    /// How much the backend's fallback has done. Which statements of which routine, and why, is in
    /// [`Compiled::fallbacks`](crate::Compiled::fallbacks).
    pub fn fallback_count(&self) -> FallbackCount {
        let Refuge { kernels, runs, .. } = self.refuge();
        FallbackCount { kernels: kernels.load(Ordering::Relaxed), runs: runs.load(Ordering::Relaxed) }
    }

    /// This code generator and device as a new backend, with another backend to fall back to than the settings name, unless they
    /// forbid fallback. What the other refuses is an error, whatever its own fallback.
    #[must_use]
    pub fn falling_back_to(&self, other: &Backend) -> Backend {
        let backend = self.reopened();
        backend.refuge().backend.get_or_init(|| other.clone());
        backend
    }

    /// The backend that kernels go to that this one refuses, if the settings allow any: [`Settings::fallback`].
    ///
    /// # Errors
    ///
    /// Where it does not open.
    pub fn fallback(&self) -> Result<Option<&Backend>, OpenError> {
        let opened = &self.refuge().backend;
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
