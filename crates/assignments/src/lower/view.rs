//! Decides which slices become views, and maps views to the nodes that own their memory.
//!
//! `s := slice(x, @b)` needs neither memory nor code if every mention of `s` can be replaced by `x[@b, ..]`.
//! A loop copies the slice instead if
//! * the element types differ, or either node has margins;
//! * the parent is virtual;
//! * the index is the letter of a scan;
//! * the user or an earlier program gave `s` memory of its own, or this program keeps its values;
//! * the program mentions `s` before the slice, assigns two different slices to it, or reads its merge
//!   buffer.
//!
//! A view of an earlier program is recorded in its node ([`TensorNode::view`]), and is a view in this program
//! too. Lowering records nothing in nodes; the new views of this program are in
//! [`LoweredAssignments::views`](super::LoweredAssignments::views).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use tnode::{MemoryMode, TensorNode, View};

use super::Result;
use super::error::LowerErrorKind;
use crate::indexing::{AxisIndex, StaticSymbol};
use crate::{Accum, Assignments, FetchOp, Operand, ProgramStep};
use lowered_ir::ir::{Affine, SymbolId};

/// The views that a program mentions.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// The parent of each view, and the symbol that is the index into its first axis.
    of: BTreeMap<TensorNode, (TensorNode, SymbolId)>,
    /// The new views of this program, in the order of their slices.
    fresh: Vec<TensorNode>,
}

impl Views {
    /// Finds the views of a program with these nodes. The symbols of recorded views are entered into
    /// `assignments`.
    pub(super) fn find(assignments: &mut Cow<'_, Assignments>, nodes: &[TensorNode]) -> Result<Views> {
        let mut views = Views::default();
        nodes.iter().for_each(|node| views.enter_recorded(node.clone(), assignments));
        let made_once = made_once(assignments);
        for step in crate::all_steps(&assignments.steps) {
            if let ProgramStep::Fetch { node, op: FetchOp::Slice { of, index }, origin } = step {
                views
                    .enter_slice(node, of, *index, assignments, &made_once)
                    .map_err(|error| error.or_at(|| origin.operand(0)))?;
            }
        }
        Ok(views)
    }

    fn enter_recorded(&mut self, node: TensorNode, assignments: &mut Cow<'_, Assignments>) {
        if let Some(View { parent, symbol }) = node.view()
            && !self.of.contains_key(&node)
        {
            let symbol = assignments.to_mut().symbol(&StaticSymbol::open(symbol));
            self.of.insert(node, (parent.clone(), symbol));
            self.enter_recorded(parent, assignments);
        }
    }

    fn enter_slice(
        &mut self,
        node: &TensorNode,
        of: &TensorNode,
        index: SymbolId,
        assignments: &Assignments,
        made_once: &BTreeSet<TensorNode>,
    ) -> Result<()> {
        let Some(symbol) = assignments.symbols.get(index.index()) else {
            let symbols = assignments.symbols.len();
            return Err(LowerErrorKind::UnknownSymbol { node: node.name(), symbol: index.0, symbols }.into());
        };
        check_shape(node, of)?;
        let requested = View { parent: of.clone(), symbol: symbol.name.clone() };
        match node.view() {
            Some(present) if present != requested => {
                let (present, requested) = (present.to_string(), requested.to_string());
                Err(tnode::TensorNodeError::View { node: node.name(), present, requested }.into())
            }
            Some(_) => Ok(()),
            None => {
                let is_kept = assignments.kept.contains(node);
                let is_bound = symbol.letter().is_none();
                if is_bound && can_be_view(node, of) && made_once.contains(node) && !is_kept {
                    self.of.insert(node.clone(), (of.clone(), index));
                    self.fresh.push(node.clone());
                }
                Ok(())
            }
        }
    }

    /// Whether the node is a view.
    pub(super) fn contains(&self, node: &TensorNode) -> bool {
        self.of.contains_key(node)
    }

    /// The node that owns the memory of `node`, and the indices that precede those into `node`.
    pub(super) fn home(&self, node: &TensorNode) -> (TensorNode, SmallVec<[SymbolId; 2]>) {
        let (mut home, mut leading) = (node, SmallVec::new());
        while let Some((parent, symbol)) = self.of.get(home) {
            leading.insert(0, *symbol);
            home = parent;
        }
        (home.clone(), leading)
    }

    /// The node that owns the memory of an element, and the element's indices there.
    fn located(&self, node: &TensorNode, projection: &[AxisIndex]) -> (TensorNode, Vec<Affine>) {
        let (home, leading) = self.home(node);
        let inner = projection.iter().map(AxisIndex::affine);
        (home, leading.iter().map(|&symbol| Affine::var(symbol)).chain(inner).collect())
    }

    /// Rejects a step that reads, through a view, elements that it writes, since the result would depend on
    /// the order of the loops. Reading only the element being written is legal if each element is written
    /// once.
    pub(super) fn check_reads(&self, accums: &[Accum]) -> Result<()> {
        if self.of.is_empty() {
            return Ok(());
        }
        for (accum, target) in
            accums.iter().flat_map(|accum| accums.iter().map(move |target| (accum, target)))
        {
            let operands = accum.operands().zip(accum.projections.project_rhs()).enumerate();
            for (at, (operand, projection)) in operands {
                let Some(node) = operand.node().filter(|node| **node != target.lhs) else { continue };
                let written = self.located(&target.lhs, target.projections.project_lhs());
                let read = self.located(node, projection);
                let known = projection.iter().all(|index| index.computed().is_none());
                let own = std::ptr::eq(accum, target) && read == written && known;
                let own = own && matches!(operand, Operand::Node(_));
                let once = !accum.init_neutral && accum.projections.is_injective();
                if read.0 == written.0 && !(own && once) {
                    let (node, target, home) = (node.name(), target.lhs.name(), read.0.name());
                    let kind = LowerErrorKind::ReadThroughView { node, target, home };
                    return Err(kind.at(accum.origin.operand(at)));
                }
            }
        }
        Ok(())
    }

    /// The parent of every view, with the symbol that is the index into its first axis.
    pub(super) fn indexed(&self) -> impl Iterator<Item = &(TensorNode, SymbolId)> {
        self.of.values()
    }

    /// The new views of this program, in the order of their slices.
    pub(super) fn made(&self, assignments: &Assignments) -> Vec<(TensorNode, View)> {
        let view = |node: &TensorNode| {
            let (parent, symbol) = &self.of[node];
            let symbol = assignments.symbols[symbol.index()].name.clone();
            (node.clone(), View { parent: parent.clone(), symbol })
        };
        self.fresh.iter().map(view).collect()
    }
}

/// Checks that a slice has the dimensions of its parent without the first.
fn check_shape(node: &TensorNode, of: &TensorNode) -> Result<()> {
    let (dims, parent) = (node.dims_without_padding()?, of.dims_without_padding()?);
    if parent.split_first().is_some_and(|(_, rest)| rest == dims.as_slice()) {
        return Ok(());
    }
    let (node, of) = (node.name(), of.name());
    Err(LowerErrorKind::SliceShape { node, dims: dims.to_vec(), of, parent: parent.to_vec() }.into())
}

/// Whether types, modes and padding of the two nodes allow a view.
fn can_be_view(node: &TensorNode, of: &TensorNode) -> bool {
    let free = matches!(node.mode().mode(), None | Some(MemoryMode::Virtual));
    let padded = node.padding().is_some() || of.padding().is_some();
    let has_memory = !of.mode().known_virtual() || of.view().is_some();
    free && !padded && node.dtype() == of.dtype() && has_memory
}

/// The nodes that a program first mentions as the target of a slice, that are always assigned the same slice,
/// and whose merge buffers it does not read.
fn made_once(assignments: &Assignments) -> BTreeSet<TensorNode> {
    let mut made: BTreeMap<&TensorNode, &FetchOp> = BTreeMap::new();
    let mut others: BTreeSet<&TensorNode> = BTreeSet::new();
    for step in crate::all_steps(&assignments.steps) {
        let sliced = match step {
            ProgramStep::Fetch { node, op: op @ FetchOp::Slice { .. }, .. } => Some((node, op)),
            _ => None,
        };
        if let Some((node, op)) = sliced
            && *made.entry(node).or_insert(op) != op
        {
            others.insert(node);
        }
        others.extend(crate::mentioned(step).filter(|node| !made.contains_key(node)));
    }
    let merged = assignments.merge_nodes();
    made.into_keys().filter(|node| !others.contains(node) && !merged.contains(node)).cloned().collect()
}
