//! The content of a file: a compiled routine as data.

use assignments::ContentNodes;
use codegen_core::{Code, Codegen};
use lowered_ir::{
    ir::{LoweredRoutine, NodeDecl, Numerics},
    pipeline::{Changes, Optimized},
};
use serde::{Deserialize, Serialize};
use tnode::{MemoryMode, ModeState, Reason, TensorNode, View};

use super::text;

/// What compilation decides about the nodes of a program, in terms of their numbers in its content.
#[derive(Clone, Debug)]
pub(crate) struct Decisions {
    name: String,
    nodes: Vec<StoredNode>,
    views: Vec<StoredView>,
    changes: String,
}

/// A node of a routine, with the decisions that the routine adds to its memory mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredNode {
    number: u32,
    /// The token of each mode, and why it was decided.
    decisions: Vec<(String, String)>,
}

/// A node that the program makes a view.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredView {
    node: u32,
    parent: u32,
    symbol: String,
}

/// A compiled routine as data.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRoutine<'a> {
    name: &'a str,
    nodes: Vec<StoredNode>,
    views: Vec<StoredView>,
    changes: &'a str,
    schedule: &'a str,
    artifact: &'a [u8],
}

/// A routine that was found, over the nodes of the program.
pub(crate) struct FoundRoutine {
    pub(crate) optimized: Optimized,
    pub(crate) nodes: Vec<TensorNode>,
    pub(crate) views: Vec<(TensorNode, View)>,
    pub(crate) changes: Changes,
    pub(crate) code: Code,
}

impl Decisions {
    /// The decisions of a routine over these nodes. None if a node is not in the program's content, such as a
    /// node that lowering makes.
    pub(crate) fn of(
        content: &ContentNodes,
        routine: &LoweredRoutine,
        nodes: &[TensorNode],
        views: &[(TensorNode, View)],
        changes: &Changes,
    ) -> Option<Decisions> {
        let node = |(node, decl): (&TensorNode, &NodeDecl)| {
            let number = content.number(node)?;
            Some(StoredNode { number, decisions: added(&node.mode(), &decl.mode) })
        };
        let view = |(node, view): &(TensorNode, View)| {
            let (node, parent) = (content.number(node)?, content.number(&view.parent)?);
            Some(StoredView { node, parent, symbol: view.symbol.clone() })
        };
        Some(Decisions {
            name: routine.name.clone(),
            nodes: nodes.iter().zip(&routine.nodes).map(node).collect::<Option<_>>()?,
            views: views.iter().map(view).collect::<Option<_>>()?,
            changes: changes.to_text(&routine.symbols, &routine.nodes),
        })
    }
}

/// The decisions of a mode that follow those of the mode before.
fn added(before: &ModeState, after: &ModeState) -> Vec<(String, String)> {
    let common = before.chain().iter().zip(after.chain()).take_while(|(a, b)| a == b).count();
    let decision = |decision: &tnode::Decision| (decision.mode.to_string(), decision.reason.to_string());
    after.chain()[common..].iter().map(decision).collect()
}

impl<'a> StoredRoutine<'a> {
    pub(super) fn new(decisions: &'a Decisions, schedule: &'a str, artifact: &'a [u8]) -> StoredRoutine<'a> {
        let Decisions { name, nodes, views, changes } = decisions;
        let (nodes, views) = (nodes.clone(), views.clone());
        StoredRoutine { name, nodes, views, changes, schedule, artifact }
    }

    /// The routine over the nodes of a program with the same content.
    ///
    /// # Safety
    ///
    /// `artifact` keeps the promise of [`Codegen::restore`] for the ABIs in `schedule`.
    pub(super) unsafe fn restore(
        &self,
        content: &ContentNodes,
        codegen: &dyn Codegen,
    ) -> Option<FoundRoutine> {
        let known = |number: u32| content.as_slice().get(number as usize).cloned();
        let nodes: Vec<TensorNode> =
            self.nodes.iter().map(|node| known(node.number)).collect::<Option<_>>()?;
        let decls: Vec<NodeDecl> =
            nodes.iter().zip(&self.nodes).map(|(node, stored)| decl(node, stored)).collect::<Option<_>>()?;
        let (schedule, abis) = text::read(self.schedule, &decls)?;
        let changes = Changes::from_text(self.name, schedule.symbols(), &decls, self.changes)?;
        let view = |stored: &StoredView| {
            let view = View { parent: known(stored.parent)?, symbol: stored.symbol.clone() };
            Some((known(stored.node)?, view))
        };
        let views = self.views.iter().map(view).collect::<Option<_>>()?;
        // SAFETY: the caller's promise.
        let artifact = unsafe { codegen.restore(self.artifact, abis) }?;
        let routine = LoweredRoutine {
            name: self.name.to_owned(),
            numerics: Numerics::default(),
            symbols: schedule.symbols().to_vec(),
            nodes: decls,
            body: Vec::new(),
        };
        let (inputs, outputs, rejected) = Default::default();
        let optimized = Optimized { routine, inputs, outputs, merge: None, rejected };
        let code = Code::new(schedule, artifact).ok()?;
        Some(FoundRoutine { optimized, nodes, views, changes, code })
    }
}

/// The declaration of a node, with the stored decisions behind those that it has.
fn decl(node: &TensorNode, stored: &StoredNode) -> Option<NodeDecl> {
    let mut mode = node.mode();
    for (token, reason) in &stored.decisions {
        mode.refine(token.parse::<MemoryMode>().ok()?, Reason::new(reason.clone())).ok()?;
    }
    Some(NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims().ok()?, mode })
}
