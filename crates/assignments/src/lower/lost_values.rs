//! Rejects statements whose values are all overwritten before they are read.
//!
//! A statement that stores values in a node is *pending* for that node until one of the values may be read:
//! by an operand, by a copied slice, or by an accumulation. A statement is rejected if, while it is pending,
//! a single later statement overwrites every element that it stored. A statement overwrites
//! * the whole node, if it initializes the node with the neutral element or fills it;
//! * the elements that it indexes, if it is a plain assignment.
//!
//! A rejected statement has no effect in any run, because the test is conservative: a computed index counts
//! as any index, and a static symbol equals only itself. Several statements that together overwrite an
//! earlier one are legal, since the earlier one may be an initial fill. So is a fill before a scan whose
//! statements overwrite it: a scan of a size that a run gives needs one, and a size may be bound to 1. Values
//! that remain at the end of a routine count as read, and so do values of a scan, which may be read in the
//! next step, and of the copies of its steps, of which the last one has no next step.
//!
//! The time is linear in the number of statements, since only the last [`MAX_PENDING`] pending statements of
//! a node are compared. A node with one write has no lost values, so its elements are not compared at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use tnode::{Scalar, TensorNode};

use super::error::LowerErrorKind;
use super::step::assignment_of;
use super::view::Views;
use super::{LowerError, Result};
use crate::indexing::{AxisIndex, AxisSpan, Projections, are_surjective};
use crate::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep};
use lowered_ir::ir::SymbolId;

/// The largest number of pending statements of a node that are compared.
const MAX_PENDING: usize = 64;

/// A box of elements of a node that is no view, one interval per axis.
type Region = SmallVec<[AxisSpan; 4]>;

/// The elements that an accumulation or fill writes.
struct WrittenRegion<'a> {
    /// A box that contains them.
    outer: Region,
    /// A box whose elements are all written.
    inner: Option<Region>,
    /// The projections that index them, for comparison; `None` for fills, initialized targets and views.
    by: Option<&'a Projections>,
}

/// A step that wrote elements of one node which no step has read yet.
struct PendingWrite<'a> {
    /// The position of the step in the program.
    step: usize,
    node: &'a TensorNode,
    written: Vec<WrittenRegion<'a>>,
}

/// Rejects the first statement whose values are lost.
pub(super) fn check(assignments: &Assignments, views: &Views) -> Result<()> {
    let steps: Vec<&ProgramStep> = crate::all_steps(&assignments.steps).collect();
    let rewritten = rewritten(&steps, views);
    let mut walk =
        LostValueScan { views, rewritten, pending: BTreeMap::new(), visible: vec![0; steps.len()] };
    let (mut scan_end, mut perhaps_end) = (0, 0);
    for (at, step) in steps.iter().enumerate() {
        if let ProgramStep::Scan { steps, end, .. } = step {
            scan_end = scan_end.max(at + 1 + crate::all_steps(steps).count());
            perhaps_end = if end.is_some() { scan_end } else { perhaps_end };
        }
        walk.read(step)?;
        if at < perhaps_end {
            walk.keep(step)?;
            continue;
        }
        let in_scan = at < scan_end || step.origin().is_copied();
        if let Some(lost) = walk.write(at, step, in_scan)?
            && !(in_scan && is_fill(steps[lost.step]))
        {
            return Err(rejection(steps[lost.step], step, lost.node, assignments));
        }
    }
    Ok(())
}

/// The nodes that are no views and have several writes.
fn rewritten(steps: &[&ProgramStep], views: &Views) -> BTreeSet<TensorNode> {
    let (mut seen, mut rewritten) = (BTreeSet::new(), BTreeSet::new());
    for node in steps.iter().flat_map(|step| crate::written(step)) {
        let (home, _) = views.home(node);
        if !seen.insert(home.clone()) {
            rewritten.insert(home);
        }
    }
    rewritten
}

struct LostValueScan<'a> {
    views: &'a Views,
    rewritten: BTreeSet<TensorNode>,
    /// The pending writes of each node that is no view and has several, oldest first.
    pending: BTreeMap<TensorNode, VecDeque<PendingWrite<'a>>>,
    /// For each step, the number of nodes whose values from this step are not all overwritten; `usize::MAX`
    /// once one of its values may have been read.
    visible: Vec<usize>,
}

impl<'a> LostValueScan<'a> {
    /// Whether the step makes a view, which needs no code.
    fn is_view(&self, step: &ProgramStep) -> bool {
        matches!(step, ProgramStep::Fetch { node, op: FetchOp::Slice { .. }, .. } if self.views.contains(node))
    }

    /// Ends the pending writes that the step reads.
    fn read(&mut self, step: &'a ProgramStep) -> Result<()> {
        if self.is_view(step) {
            return Ok(());
        }
        for accum in step.accums() {
            for (operand, indices) in accum.operands().zip(accum.projections.project_rhs()) {
                if let Operand::Node(node) | Operand::Padded { node, .. } = operand {
                    self.read_at(node, &accum.projections, indices);
                }
            }
            if !accum.init_neutral && accum.op != AccumOp::Assign {
                self.read_at(&accum.lhs, &accum.projections, accum.projections.project_lhs());
            }
        }
        if let Some(node) = crate::sliced(step) {
            let (home, region) = self.whole(node)?;
            self.seen(&home, &region);
        }
        Ok(())
    }

    fn read_at(&mut self, node: &TensorNode, projections: &Projections, indices: &[AxisIndex]) {
        let (home, leading) = self.views.home(node);
        if self.pending.contains_key(&home) {
            let region = located(&leading, projections.outer_box(indices));
            self.seen(&home, &region);
        }
    }

    /// Ends the pending writes that a read of `region` may see.
    fn seen(&mut self, home: &TensorNode, region: &Region) {
        let Some(pending) = self.pending.get_mut(home) else { return };
        let apart = |written: &WrittenRegion| written.outer.iter().zip(region).any(|(a, b)| a.is_apart(b));
        pending.retain(|write| {
            let unread = write.written.iter().all(apart);
            if !unread {
                self.visible[write.step] = usize::MAX;
            }
            unread
        });
    }

    /// Ends the pending writes of the nodes that a step writes, which may not run.
    fn keep(&mut self, step: &'a ProgramStep) -> Result<()> {
        for node in crate::written(step) {
            let (home, whole) = self.whole(node)?;
            self.seen(&home, &whole);
        }
        Ok(())
    }

    /// Records the elements that the step at position `at` writes, unless a scan repeats it. Returns an
    /// earlier step whose last visible values it overwrites.
    fn write(&mut self, at: usize, step: &'a ProgramStep, in_scan: bool) -> Result<Option<PendingWrite<'a>>> {
        if self.is_view(step) {
            return Ok(None);
        }
        for node in crate::written(step) {
            let (home, whole) = self.whole(node)?;
            if !self.rewritten.contains(&home) {
                self.visible[at] = usize::MAX;
                continue;
            }
            let written = self.written(step, node, &whole);
            if let Some(lost) = self.overwrite(&home, &written, starts(step).then_some(&whole))? {
                return Ok(Some(lost));
            }
            if !written.is_empty() && !in_scan {
                self.visible[at] = self.visible[at].saturating_add(1);
                let pending = self.pending.entry(home).or_default();
                pending.push_back(PendingWrite { step: at, node, written });
                if pending.len() > MAX_PENDING {
                    pending.pop_front();
                }
            }
        }
        Ok(None)
    }

    /// Removes the pending writes that are overwritten. Returns the first one whose step has no other visible
    /// values.
    fn overwrite(
        &mut self,
        home: &TensorNode,
        by: &[WrittenRegion],
        whole: Option<&Region>,
    ) -> Result<Option<PendingWrite<'a>>> {
        let Some(pending) = self.pending.get_mut(home) else { return Ok(None) };
        let dims = home.dims_without_padding()?;
        let within = |inner: &Region, outer: &Region| {
            outer.iter().zip(inner).zip(&dims).all(|((outer, inner), &dim)| outer.is_within(inner, dim))
        };
        let covered = |written: &WrittenRegion| {
            let boxes = by.iter().filter_map(|by| by.inner.as_ref()).chain(whole);
            let same = |by: &WrittenRegion| by.by.zip(written.by).is_some_and(|(by, of)| by.writes_as(of));
            boxes.into_iter().any(|inner| within(inner, &written.outer)) || by.iter().any(same)
        };
        let mut at = 0;
        while at < pending.len() {
            if !pending[at].written.iter().all(covered) {
                at += 1;
                continue;
            }
            let Some(write) = pending.remove(at) else { break };
            let visible = &mut self.visible[write.step];
            *visible = visible.saturating_sub(1);
            if *visible == 0 {
                return Ok(Some(write));
            }
        }
        Ok(None)
    }

    /// The elements of a node that the step writes; none if the product space is empty.
    fn written(&self, step: &'a ProgramStep, node: &TensorNode, whole: &Region) -> Vec<WrittenRegion<'a>> {
        let of_node = || step.accums().iter().filter(|accum| accum.lhs == *node);
        if step.accums().is_empty() {
            return vec![WrittenRegion { outer: whole.clone(), inner: Some(whole.clone()), by: None }];
        }
        let plain = |accum: &Accum| accum.op == AccumOp::Assign && !accum.init_neutral;
        let leading = self.views.home(node).1;
        let part = |accum: &'a Accum| WrittenRegion {
            outer: located(&leading, accum.projections.outer_box(accum.projections.project_lhs())),
            inner: accum
                .projections
                .inner_box()
                .filter(|_| plain(accum))
                .map(|inner| located(&leading, inner)),
            by: plain(accum).then_some(&accum.projections).filter(|_| leading.is_empty()),
        };
        let mut parts: Vec<WrittenRegion> =
            of_node().filter(|accum| !accum.projections.product_space().contains(&0)).map(part).collect();
        if of_node().all(plain) && are_surjective(&crate::projections_into(step.accums(), node)) {
            parts.iter_mut().take(1).for_each(|first| first.inner = Some(whole.clone()));
        }
        parts
    }

    /// The node that owns the memory of `node`, and the region of `node` in it.
    fn whole(&self, node: &TensorNode) -> Result<(TensorNode, Region)> {
        let (home, leading) = self.views.home(node);
        let axes = node.dims_without_padding()?.iter().map(|&dim| AxisSpan::whole(dim)).collect();
        Ok((home, located(&leading, axes)))
    }
}

/// The box of a view in the node that owns its memory: the symbols are the first indices.
fn located(leading: &[SymbolId], axes: Vec<AxisSpan>) -> Region {
    leading.iter().map(|&symbol| AxisSpan::at(symbol)).chain(axes).collect()
}

/// Whether the step writes every element of its targets, whatever its indices: it initializes or fills them.
fn starts(step: &ProgramStep) -> bool {
    step.accums().iter().all(|accum| accum.init_neutral)
}

/// Whether the step stores constants alone.
fn is_fill(step: &ProgramStep) -> bool {
    let is_constant = |operand: &Operand| matches!(operand, Operand::Constant(_));
    match step {
        ProgramStep::Fetch { op, .. } => matches!(op, FetchOp::Constant(_) | FetchOp::ConstantBits(_)),
        _ => step.accums().iter().all(|accum| accum.operands().all(is_constant)),
    }
}

/// The error with the source spans of both statements.
fn rejection(
    lost: &ProgramStep,
    by: &ProgramStep,
    node: &TensorNode,
    assignments: &Assignments,
) -> LowerError {
    let remedy = match by.accums().first() {
        Some(accum) if accum.init_neutral => {
            let (sign, start) = (accum.op, number(accum.op.neutral(accum.lhs.dtype())));
            let fill = assignment_of(&accum.lhs, &start);
            format!(
                "`:{sign}` starts the whole node from {start}; to keep the values, write `{fill}` once, then `{sign}`"
            )
        }
        _ => "remove one of the statements, or read the values in between".to_owned(),
    };
    let listed = |step| format!("`{}`", crate::listing(step, &assignments.symbols));
    let (at, by_at) = (lost.origin().statement(), by.origin().statement());
    let statement = at.as_ref().map_or_else(|| listed(lost), |_| "this statement".to_owned());
    let by = by_at.as_ref().map_or_else(|| listed(by), |at| format!("the statement of {}", at.line_name()));
    LowerErrorKind::LostValues { node: node.name(), statement, by, remedy }.at(at).and_at(by_at)
}

/// A number in the notation of assignment text.
fn number(value: Scalar) -> String {
    if value.dtype().is_float() { value.as_f64().to_string() } else { value.as_i64().to_string() }
}
