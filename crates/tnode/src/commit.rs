//! Memory-mode changes, all under one lock.
//!
//! A compilation decides about many nodes, and must leave all of them as they were if it fails. It works on copies of
//! their states and hands them in together; a reader never sees some of them changed and others not.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::conflict::ModeConflict;
use crate::error::Error;
use crate::mode::MemoryMode;
use crate::node::TensorNode;
use crate::pending;
use crate::state::ModeState;
use crate::view::View;

/// Readers share it, writers have it alone, so that a commit is one step to everybody.
static MODES: RwLock<()> = RwLock::new(());

/// Makes all the decisions or none.
///
/// A state that begins with the node's present decisions replaces it. Otherwise somebody else decided meanwhile; then
/// the decisions that the node lacks are added to its present ones.
///
/// # Errors
/// The first conflict found, in the order given; then no node has changed.
pub fn commit_modes(decisions: &[(TensorNode, ModeState)]) -> Result<(), Error> {
    commit_decisions(decisions, &[])
}

/// Makes all the decisions and records all the views, or nothing. A view is virtual: it has no memory of its own.
///
/// # Errors
/// The first conflict found, modes first, in the order given; then no node has changed.
pub fn commit_decisions(
    decisions: &[(TensorNode, ModeState)],
    views: &[(TensorNode, View)],
) -> Result<(), Error> {
    let _writer = MODES.write().unwrap_or_else(PoisonError::into_inner);
    let mut merged: BTreeMap<&TensorNode, ModeState> = BTreeMap::new();
    for (node, decided) in decisions {
        let state = merged.entry(node).or_insert_with(|| node.modes().clone());
        state.merge(decided).map_err(|source| named(node, source))?;
    }
    for (node, view) in views {
        match node.recorded_view().get() {
            Some(present) if present != view => {
                return Err(Error::View {
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

/// What a node is a view of, if it is one.
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

/// Changes the state of one node; `change` leaves it alone when it fails.
pub(crate) fn update(
    node: &TensorNode,
    change: impl FnOnce(&mut ModeState) -> Result<(), ModeConflict>,
) -> Result<(), Error> {
    let _writer = MODES.write().unwrap_or_else(PoisonError::into_inner);
    change(&mut node.modes()).map_err(|source| named(node, source))
}

pub(crate) fn named(node: &TensorNode, source: ModeConflict) -> Error {
    Error::Mode { node: format!("{} {}", node.id(), node.name()), source }
}
