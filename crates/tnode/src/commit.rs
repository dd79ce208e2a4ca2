//! Changes of memory modes, under one lock.
//!
//! A compilation decides about many nodes, and must leave all of them unchanged if it fails. It works on
//! copies of their states and commits them together, so a reader never sees a part of a commit.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::conflict::ModeConflict;
use crate::error::{Result, TensorNodeError};
use crate::mode::MemoryMode;
use crate::node::TensorNode;
use crate::pending;
use crate::state::ModeState;
use crate::view::View;

/// Readers share the lock and writers have it exclusively, which makes a commit atomic.
static MODES: RwLock<()> = RwLock::new(());

/// Commits all decisions or none.
///
/// A state that starts with the node's present decisions replaces it. Otherwise another commit came first,
/// and the decisions that the node lacks are added to its present ones.
///
/// # Errors
/// The first conflict, in the order given; no node has changed then.
pub fn commit_modes(decisions: &[(TensorNode, ModeState)]) -> Result<()> {
    commit_decisions(decisions, &[])
}

/// Commits all decisions and records all views, or neither. A view is virtual: it has no memory of its own.
///
/// # Errors
/// The first conflict in the order given, modes first; no node has changed then.
pub fn commit_decisions(decisions: &[(TensorNode, ModeState)], views: &[(TensorNode, View)]) -> Result<()> {
    let _writer = MODES.write().unwrap_or_else(PoisonError::into_inner);
    let mut merged: BTreeMap<&TensorNode, ModeState> = BTreeMap::new();
    for (node, decided) in decisions {
        let state = merged.entry(node).or_insert_with(|| node.modes().clone());
        state.merge(decided).map_err(|source| named(node, source))?;
    }
    for (node, view) in views {
        match node.recorded_view().get() {
            Some(present) if present != view => {
                return Err(TensorNodeError::View {
                    node: node.name(),
                    present: present.to_string(),
                    requested: view.to_string(),
                });
            }
            _ => {}
        }
        let state = merged.entry(node).or_insert_with(|| node.modes().clone());
        state.refine(MemoryMode::Virtual, view.reason()).map_err(|source| named(node, source))?;
    }
    for (node, state) in merged {
        *node.modes() = state;
    }
    for (node, view) in views {
        node.recorded_view().get_or_init(|| view.clone());
    }
    Ok(())
}

/// The slice of another node that a node stands for, if it is a view.
pub(crate) fn view(node: &TensorNode) -> Option<View> {
    if let Some(view) = pending::view(node) {
        return Some(view);
    }
    let _reader = MODES.read().unwrap_or_else(PoisonError::into_inner);
    node.recorded_view().get().cloned()
}

/// The present state of one node.
pub(crate) fn read(node: &TensorNode) -> ModeState {
    if let Some(state) = pending::mode(node) {
        return state;
    }
    let _reader = MODES.read().unwrap_or_else(PoisonError::into_inner);
    node.modes().clone()
}

/// Changes the state of one node, unless `change` fails.
pub(crate) fn update(
    node: &TensorNode,
    change: impl FnOnce(&mut ModeState) -> Result<(), ModeConflict>,
) -> Result<()> {
    let _writer = MODES.write().unwrap_or_else(PoisonError::into_inner);
    change(&mut node.modes()).map_err(|source| named(node, source))
}

pub(crate) fn named(node: &TensorNode, source: ModeConflict) -> TensorNodeError {
    TensorNodeError::Mode { node: format!("{} {}", node.id(), node.name()), source }
}
