//! Refuses statements whose values are all overwritten before anything reads them.
//!
//! A statement is *pending* for a node from when it stores values there until something may read one of them:
//! an operand, a slice that is copied, or an accumulation onto them. It is refused if one later statement
//! overwrites every element that it gives a value while it is pending. Statements overwrite
//! * the whole node, if they start from the neutral element or fill it;
//! * the elements they index, if they are plain.
//!
//! A refused statement has no effect in any run: computed indices may be anywhere, and a static symbol equals
//! itself alone. Several statements that overwrite another piece by piece are legal, since it may be a fill
//! from which they begin. Values that are left at the end of a routine are read by others.
//!
//! Time is linear in the number of statements: of the pending ones of a node only the last [`MAX_PENDING`]
//! are looked at.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use tnode::{Scalar, TensorNode};

use super::LowerError;
use super::error::LowerErrorKind;
use super::step::assignment_of;
use super::view::Views;
use crate::indexing::{AxisIndex, AxisSpan, Projections, are_surjective};
use crate::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep};
use lowered_ir::ir::SymbolId;

/// How many pending statements of one node are looked at.
const MAX_PENDING: usize = 64;

/// A box of elements of the node that has them, axis by axis.
type Region = SmallVec<[AxisSpan; 4]>;

/// Elements that a step writes.
struct WrittenRegion<'a> {
    /// They are in this box.
    outer: Region,
    /// All of this box.
    inner: Option<Region>,
    /// The indices that reach them.
    by: Option<&'a Projections>,
}

/// A step that gave elements of one node values that nothing has read.
struct PendingWrite<'a> {
    /// The position of the step.
    step: usize,
    node: &'a TensorNode,
    written: Vec<WrittenRegion<'a>>,
}

/// Refuses the first statement whose values are lost.
pub(super) fn check(assignments: &Assignments, views: &Views) -> Result<(), LowerError> {
    let mut steps: Vec<&ProgramStep> = Vec::new();
    crate::each_step(&assignments.steps, &mut |step| steps.push(step));
    let mut walk = LostValueScan { views, pending: BTreeMap::new(), visible: vec![0; steps.len()] };
    for (at, step) in steps.iter().enumerate() {
        walk.read(step)?;
        if let Some(lost) = walk.write(at, step)? {
            return Err(refusal(steps[lost.step], step, lost.node, assignments));
        }
    }
    Ok(())
}

struct LostValueScan<'a> {
    views: &'a Views,
    /// By the node that has the elements.
    pending: BTreeMap<TensorNode, VecDeque<PendingWrite<'a>>>,
    /// For each step, how many of the nodes it writes still show its values, or may have.
    visible: Vec<usize>,
}

impl<'a> LostValueScan<'a> {
    /// Whether the step is a slice that needs no code.
    fn is_view(&self, step: &ProgramStep) -> bool {
        matches!(step, ProgramStep::Fetch { node, op: FetchOp::Slice { .. }, .. } if self.views.contains(node))
    }

    /// Notes the elements that the step reads.
    fn read(&mut self, step: &'a ProgramStep) -> Result<(), LowerError> {
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
        let region = located(&leading, projections.outer_box(indices));
        self.seen(&home, &region);
    }

    /// Takes the steps out whose values in a region are read.
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

    /// Notes the elements that the step at a position writes. Returns an earlier step whose last values it
    /// overwrites.
    fn write(&mut self, at: usize, step: &'a ProgramStep) -> Result<Option<PendingWrite<'a>>, LowerError> {
        if self.is_view(step) {
            return Ok(None);
        }
        for node in crate::written(step) {
            let (home, whole) = self.whole(node)?;
            let written = self.written(step, node, &whole);
            if let Some(lost) = self.overwrite(&home, &written, starts(step).then_some(&whole))? {
                return Ok(Some(lost));
            }
            if !written.is_empty() {
                self.visible[at] += 1;
                let pending = self.pending.entry(home).or_default();
                pending.push_back(PendingWrite { step: at, node, written });
                if pending.len() > MAX_PENDING {
                    pending.pop_front();
                }
            }
        }
        Ok(None)
    }

    /// Removes the pending writes that are overwritten. Returns the first write whose step has no other
    /// visible value.
    fn overwrite(
        &mut self,
        home: &TensorNode,
        by: &[WrittenRegion],
        whole: Option<&Region>,
    ) -> Result<Option<PendingWrite<'a>>, LowerError> {
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

    /// The elements of a node that the step gives values; none if its loops do not run.
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

    /// The node that has the elements of a node, and where they are there.
    fn whole(&self, node: &TensorNode) -> Result<(TensorNode, Region), LowerError> {
        let (home, leading) = self.views.home(node);
        let axes = node.dims_without_padding()?.iter().map(|&dim| AxisSpan::whole(dim)).collect();
        Ok((home, located(&leading, axes)))
    }
}

/// The box in the node that has the elements of a view: behind the symbols that are its first indices there.
fn located(leading: &[SymbolId], axes: Vec<AxisSpan>) -> Region {
    leading.iter().map(|&symbol| AxisSpan::at(symbol)).chain(axes).collect()
}

/// Whether the step gives every element of the nodes that it writes a value, whatever its indices.
fn starts(step: &ProgramStep) -> bool {
    step.accums().iter().all(|accum| accum.init_neutral)
}

/// The error that shows both statements.
fn refusal(lost: &ProgramStep, by: &ProgramStep, node: &TensorNode, assignments: &Assignments) -> LowerError {
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
    let by = by_at.as_ref().map_or_else(|| listed(by), |at| format!("the statement of line {}", at.line()));
    LowerErrorKind::LostValues { node: node.name(), statement, by, remedy }.at(at).and_at(by_at)
}

/// A number as the assignment text writes it.
fn number(value: Scalar) -> String {
    if value.dtype().is_float() { value.as_f64().to_string() } else { value.as_i64().to_string() }
}
