//! The code of a divided routine.

use std::{collections::BTreeMap, fmt, sync::Arc};

use codegen_core::Code;
use lowered_ir::ir::{NodeDecl, NodeRef};

use super::{runs::FallbackRuns, statement::Fallback};
use crate::target::Target;

/// The backend that runs a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartBackend {
    /// The backend itself.
    Own,
    /// The fallback of the backend.
    Fallback,
}

/// The code of a divided routine.
pub(crate) struct DividedCode {
    pub(crate) name: String,
    pub(crate) own: Arc<Target>,
    pub(crate) fallback: Arc<Target>,
    pub(crate) runs: Arc<FallbackRuns>,
    pub(crate) parts: Vec<PartCode>,
    /// The declarations of the local nodes that several parts touch.
    pub(crate) shared: BTreeMap<NodeRef, NodeDecl>,
    pub(crate) fallbacks: Vec<Fallback>,
}

/// The code of a part.
#[derive(Clone, Debug)]
pub(crate) struct PartCode {
    pub(crate) place: PartBackend,
    pub(crate) code: Arc<Code>,
    pub(crate) roles: BTreeMap<NodeRef, NodeUse>,
    /// The nodes copied to the fallback before the part runs there.
    pub(crate) copy_in: Vec<NodeRef>,
    /// The nodes copied back after the part ran there.
    pub(crate) copy_out: Vec<NodeRef>,
}

/// How a part uses a node of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeUse {
    /// Whether the first kernel call that touches the node reads it.
    pub(crate) reads_first: bool,
    pub(crate) writes: bool,
    /// Whether the part writes every element before reading any, so that no earlier value is needed or left.
    pub(crate) overwrites: bool,
}

impl DividedCode {
    /// Warns of the statements that fall back and counts their kernels, once the routine is compiled.
    pub(crate) fn count(&self) {
        for Fallback { routine, from, to, what, why, .. } in &self.fallbacks {
            tracing::warn!(%routine, %from, %to, %what, %why, "statements fall back");
        }
        let elsewhere = self.parts.iter().filter(|part| part.place == PartBackend::Fallback);
        let kernels = elsewhere.map(|part| part.code.schedule().kernels().len());
        self.runs.count_kernels(kernels.sum());
    }

    /// The backend that runs a part.
    pub(crate) fn target(&self, place: PartBackend) -> &Target {
        match place {
            PartBackend::Own => &self.own,
            PartBackend::Fallback => &self.fallback,
        }
    }
}

impl fmt::Debug for DividedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DividedCode").field("name", &self.name).finish_non_exhaustive()
    }
}
