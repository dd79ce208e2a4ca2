//! Decisions about nodes that are made but not committed. Later decisions build on them, and other threads do
//! not see them.
//!
//! Several compilations that are accepted or rejected together see each other's decisions, as if these were
//! committed. While [`Pending::during`] runs, reads of modes and views on its thread find the pending
//! decisions; reads on other threads do not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::{commit_decisions, named};
use crate::error::Result;
use crate::mode::MemoryMode;
use crate::node::TensorNode;
use crate::state::ModeState;
use crate::view::View;

/// Modes and views that are decided but not committed.
#[derive(Clone, Debug, Default)]
struct Decided {
    modes: BTreeMap<TensorNode, ModeState>,
    views: BTreeMap<TensorNode, View>,
}

thread_local! {
    /// The pending decisions that this thread sees instead of the committed ones; the innermost entry counts.
    static SEEN: RefCell<Vec<Arc<Decided>>> = const { RefCell::new(Vec::new()) };
}

/// Decisions about memory modes and views that are not committed.
///
/// ```
/// use tnode::{MemoryMode, Pending, Reason, TensorNode};
///
/// let node = TensorNode::builder("t").dims([4]).build()?;
/// let mut pending = Pending::default();
/// let mut mode = node.mode();
/// mode.refine(MemoryMode::Virtual, Reason::new("an example")).expect("nothing was decided");
/// pending.add(&[(node.clone(), mode)], &[])?;
/// assert!(pending.during(|| node.mode().known_virtual()));
/// assert!(!node.mode().known_virtual());
/// pending.commit()?;
/// assert!(node.mode().known_virtual());
/// # Ok::<(), tnode::TensorNodeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pending {
    decided: Arc<Decided>,
}

impl Pending {
    /// Adds decisions that build on the pending ones, as [`commit_decisions`] would.
    ///
    /// # Errors
    /// The first conflict found; then nothing is added.
    pub fn add(&mut self, decisions: &[(TensorNode, ModeState)], views: &[(TensorNode, View)]) -> Result<()> {
        let mut decided = (*self.decided).clone();
        for (node, mode) in decisions {
            decided.state(node).merge(mode).map_err(|source| named(node, source))?;
        }
        for (node, view) in views {
            decided.state(node).refine(MemoryMode::Virtual, view.reason()).map_err(|e| named(node, e))?;
            decided.views.insert(node.clone(), view.clone());
        }
        self.decided = Arc::new(decided);
        Ok(())
    }

    /// Runs a function. Its reads of modes and views on this thread find the pending decisions.
    pub fn during<R>(&self, function: impl FnOnce() -> R) -> R {
        SEEN.with_borrow_mut(|seen| seen.push(Arc::clone(&self.decided)));
        let _end = End;
        function()
    }

    /// Commits all decisions or none.
    ///
    /// # Errors
    /// The errors of [`commit_decisions`], if other decisions were committed meanwhile.
    pub fn commit(self) -> Result<()> {
        let Decided { modes, views } = &*self.decided;
        let modes: Vec<_> = modes.iter().map(|(node, mode)| (node.clone(), mode.clone())).collect();
        let views: Vec<_> = views.iter().map(|(node, view)| (node.clone(), view.clone())).collect();
        commit_decisions(&modes, &views)
    }
}

impl Decided {
    /// The pending state of a node, which starts as the committed one.
    fn state(&mut self, node: &TensorNode) -> &mut ModeState {
        self.modes.entry(node.clone()).or_insert_with(|| node.mode())
    }
}

/// Ends the visibility of pending decisions when it is dropped, which a panic does too.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        SEEN.with_borrow_mut(|seen| drop(seen.pop()));
    }
}

/// The pending mode of a node, if this thread sees one.
pub(crate) fn mode(node: &TensorNode) -> Option<ModeState> {
    SEEN.with_borrow(|seen| seen.last()?.modes.get(node).cloned())
}

/// The pending view of a node, if this thread sees one.
pub(crate) fn view(node: &TensorNode) -> Option<View> {
    SEEN.with_borrow(|seen| seen.last()?.views.get(node).cloned())
}
