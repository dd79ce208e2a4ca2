//! Scans that end early, as scans that run to their last step.
//!
//! The steps that would not run leave every node that outlives a step as it is: they store what is there. So
//! the scan can be unrolled, for kernels of GPUs and for derivatives that take copies of its steps.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Affine, SymbolId, TernaryOp};
use tnode::{MemoryMode, Reason, TensorNode, TensorNodeError};

use crate::builder::{self, BuildError};
use crate::indexing::{AxisIndex, Projections, are_surjective, identity_projections};
use crate::{
    Accum, AccumOp, Assignments, Operand, Origin, ProgramStep, Rhs, all_steps, mentioned, projections_into,
    written,
};

impl Assignments {
    /// Whether a scan has a condition.
    pub fn has_ends(&self) -> bool {
        all_steps(&self.steps).any(|step| matches!(step, ProgramStep::Scan { end: Some(_), .. }))
    }

    /// Rejects a scan with a condition that writes parts of a node without values.
    ///
    /// # Errors
    /// [`EarlyEndError`].
    pub fn check_ends(&self) -> Result<(), EarlyEndError> {
        if self.has_ends() { self.clone().select_ends(&|_, _| false) } else { Ok(()) }
    }

    /// Makes all iterations run, but for those of the scans that `keep` selects, outermost scans, by their
    /// letters and steps. Where the condition of a scan is 0, the statements that would not run leave every
    /// node as it is that is mentioned outside of the scan, kept, given by the caller, or read by a later
    /// step.
    ///
    /// # Errors
    /// [`EarlyEndError`].
    pub fn select_ends(&mut self, keep: &KeepScan<'_>) -> Result<(), EarlyEndError> {
        if !self.has_ends() {
            return Ok(());
        }
        let own: BTreeSet<TensorNode> = self.text_nodes.iter().cloned().collect();
        let mut counts = BTreeMap::new();
        for node in all_steps(&self.steps).flat_map(mentioned) {
            *counts.entry(node.clone()).or_insert(0) += 1;
        }
        let mut ending = Ending { keep, own, kept: &self.kept, counts, filled: BTreeSet::new() };
        self.steps = ending.steps(std::mem::take(&mut self.steps))?;
        Ok(())
    }
}

/// Selects scans by their letters and steps.
pub type KeepScan<'a> = dyn Fn(SymbolId, &[ProgramStep]) -> bool + 'a;

/// Why a scan cannot end early.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum EarlyEndError {
    /// The elements that steps behind the end would write have no values.
    #[error(
        "node {node} has no values where steps behind the end of a scan would write it; expected a fill before the scan, such as `{fill}`"
    )]
    Unfilled { node: String, fill: String },
    /// A node cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A node cannot be built.
    #[error(transparent)]
    Node(#[from] TensorNodeError),
}

struct Ending<'a> {
    keep: &'a KeepScan<'a>,
    /// The nodes that the program makes.
    own: BTreeSet<TensorNode>,
    kept: &'a BTreeSet<TensorNode>,
    /// The number of mentions of each node in the program.
    counts: BTreeMap<TensorNode, usize>,
    /// The nodes that the steps so far have filled.
    filled: BTreeSet<TensorNode>,
}

impl Ending<'_> {
    fn steps(&mut self, steps: Vec<ProgramStep>) -> Result<Vec<ProgramStep>, EarlyEndError> {
        let mut all = Vec::new();
        for step in steps {
            self.filled.extend(written(&step).into_iter().filter(|node| starts(&step, node)).cloned());
            all.push(match step {
                ProgramStep::Block { name, steps } => ProgramStep::Block { name, steps: self.steps(steps)? },
                ProgramStep::Scan { symbol, steps, end } => {
                    let is_kept = (self.keep)(symbol, &steps);
                    let (filled, keep) = (self.filled.clone(), self.keep);
                    if is_kept {
                        self.keep = &|_, _| false;
                    }
                    let mut steps = self.steps(steps)?;
                    self.keep = keep;
                    if let Some(end) = end.as_ref().filter(|_| !is_kept) {
                        let body = steps.split_off(end.split(&steps).0.len());
                        let outlive = self.outlive(&steps, &body);
                        self.check_filled(&body, &outlive, &filled)?;
                        let ended = EndedScan { symbol, condition: &end.node, outlive };
                        ended.append(body, &mut steps)?;
                    }
                    ProgramStep::Scan { symbol, steps, end: end.filter(|_| is_kept) }
                }
                step => step,
            });
        }
        Ok(all)
    }

    /// Rejects a node of which steps write parts, and that has no values before the first of them.
    fn check_filled(
        &self,
        body: &[ProgramStep],
        outlive: &BTreeSet<TensorNode>,
        filled: &BTreeSet<TensorNode>,
    ) -> Result<(), EarlyEndError> {
        let is_open = |node: &&TensorNode| {
            let lasts = MemoryMode::Materialized.outcomes().contains(node.mode().outcomes());
            outlive.contains(*node) && self.own.contains(*node) && !lasts && !filled.contains(*node)
        };
        match all_steps(body).flat_map(written).find(is_open) {
            Some(node) => {
                let fill = crate::lower::step::assignment_of(node, "0");
                Err(EarlyEndError::Unfilled { node: node.name(), fill })
            }
            None => Ok(()),
        }
    }

    /// The nodes that the body of a scan writes and whose values something sees but the same step.
    fn outlive(&self, condition: &[ProgramStep], body: &[ProgramStep]) -> BTreeSet<TensorNode> {
        let mut counts = BTreeMap::new();
        let (mut stored, mut outlive) = (BTreeSet::new(), BTreeSet::new());
        for step in all_steps(condition).chain(all_steps(body)) {
            let starts = |node: &TensorNode| starts(step, node);
            let writes: BTreeSet<&TensorNode> = written(step).into_iter().collect();
            for node in mentioned(step) {
                *counts.entry(node.clone()).or_insert(0) += 1;
                let is_read = step.accums().iter().flat_map(Accum::operands).any(|o| o.node() == Some(node));
                if !stored.contains(node) && (is_read || !starts(node)) {
                    outlive.insert(node.clone());
                }
            }
            stored.extend(writes.into_iter().cloned());
        }
        let is_seen = |node: &TensorNode| {
            !self.own.contains(node) && !node.mode().known_virtual()
                || self.kept.contains(node)
                || counts.get(node) != self.counts.get(node)
        };
        outlive.extend(stored.iter().filter(|node| is_seen(node)).cloned());
        // The steps of an inner scan that may end have nodes of their own.
        outlive.retain(|node| self.counts.contains_key(node));
        outlive
    }
}

/// Whether a step gives every element of a node a value that does not depend on those before.
fn starts(step: &ProgramStep, node: &TensorNode) -> bool {
    let parts: Vec<&Accum> = step.accums().iter().filter(|accum| accum.lhs == *node).collect();
    match parts.first() {
        None => matches!(step, ProgramStep::Fetch { .. }),
        Some(first) if first.init_neutral => true,
        Some(first) => {
            first.op == AccumOp::Assign
                && !parts.iter().any(|part| part.leaves_rest())
                && are_surjective(&projections_into(step.accums(), node))
        }
    }
}

/// A scan whose steps may change nothing.
struct EndedScan<'a> {
    symbol: SymbolId,
    condition: &'a TensorNode,
    /// The nodes that such a step leaves as they are.
    outlive: BTreeSet<TensorNode>,
}

impl EndedScan<'_> {
    fn append(&self, steps: Vec<ProgramStep>, all: &mut Vec<ProgramStep>) -> Result<(), EarlyEndError> {
        for step in steps {
            match step {
                ProgramStep::Block { name, steps } => {
                    let mut inner = Vec::new();
                    self.append(steps, &mut inner)?;
                    all.push(ProgramStep::Block { name, steps: inner });
                }
                ProgramStep::Scan { symbol, steps, end } => {
                    let mut inner = Vec::new();
                    self.append(steps, &mut inner)?;
                    all.push(ProgramStep::Scan { symbol, steps: inner, end });
                }
                ProgramStep::Accum(accum) if self.outlive.contains(&accum.lhs) && self.is_of_part(&accum) => {
                    self.part(*accum, all)?;
                }
                step => self.whole(step, all)?,
            }
        }
        Ok(())
    }

    /// Whether a statement changes some elements, each once, or sums that a copy of the node would not suit:
    /// those of a node with a part for each step.
    fn is_of_part(&self, accum: &Accum) -> bool {
        let lhs = accum.projections.project_lhs();
        let is_loop = |iterator| lhs.iter().any(|index| index.affine().mentions(iterator));
        let has_sums = !accum.projections.product_iterators().iter().all(|&iterator| is_loop(iterator));
        let is_of_step = lhs.iter().any(|index| index.affine().mentions(self.symbol));
        let is_computed = lhs.iter().any(|index| index.computed().is_some());
        !accum.init_neutral && !is_computed && (!has_sums || is_of_step)
    }

    /// `x[i] := v` becomes `x[i] := where(c, v, x[i])`, and `x[i] += v` becomes `x[i] += where(c, v, 0)`.
    fn part(&self, accum: Accum, all: &mut Vec<ProgramStep>) -> Result<(), EarlyEndError> {
        let Accum { op, lhs, projections, origin, .. } = &accum;
        let dims = projections.product_space();
        let value = made(&format!("{}.new", lhs.name()), dims, lhs, MemoryMode::Virtual)?;
        let point: Vec<AxisIndex> =
            projections.product_iterators().iter().map(|&id| AxisIndex::new(Affine::var(id))).collect();
        let of_point = || (dims.into(), point.iter().cloned().collect());
        let of_target = || (projections.lhs_dims().into(), projections.project_lhs().into());
        let operands = projections.rhs_dims().iter().cloned().zip(projections.project_rhs().iter().cloned());
        let with = |lhs, rhs| {
            let made = projections.with_arrays(lhs, rhs, "early end");
            made.map_err(|source| BuildError::Index { node: accum.lhs.name(), source })
                .map_err(EarlyEndError::from)
        };
        let (otherwise, place) = match op {
            AccumOp::Assign => (Operand::Node(lhs.clone()), of_target()),
            op => (Operand::Constant(op.neutral(lhs.dtype())), Default::default()),
        };
        let rhs = vec![Default::default(), of_point(), place];
        let selected = Accum {
            init_neutral: false,
            op: *op,
            lhs: lhs.clone(),
            rhs: Rhs::Ternary(TernaryOp::Where, [self.condition.into(), (&value).into(), otherwise]),
            computed: Vec::new(),
            projections: with(of_target(), rhs)?,
            origin: Origin::unknown().clone(),
        };
        let projections = with(of_point(), operands.collect())?;
        let origin = origin.clone();
        let value = Accum { op: AccumOp::Assign, lhs: value, projections, origin, ..accum };
        all.push(ProgramStep::Accum(Box::new(value)));
        all.push(ProgramStep::Accum(Box::new(selected)));
        Ok(())
    }

    /// Any other step works on copies of the nodes, which are their values if the step counts.
    fn whole(&self, mut step: ProgramStep, all: &mut Vec<ProgramStep>) -> Result<(), EarlyEndError> {
        let detached = match &step {
            ProgramStep::Detach(node) => Some(node),
            _ => None,
        };
        let nodes: BTreeSet<&TensorNode> = written(&step).into_iter().chain(detached).collect();
        let nodes = nodes.into_iter().filter(|node| self.outlive.contains(*node));
        let mut copies = Vec::new();
        for node in nodes.cloned().collect::<Vec<_>>() {
            let dims = node.dims_without_padding()?;
            let copy = made(&format!("{}.new", node.name()), &dims, &node, MemoryMode::Local)?;
            if !starts(&step, &node) {
                all.extend(builder::copy(&copy, &node)?.steps);
            }
            replace(&mut step, &node, &copy);
            copies.push((node, copy));
        }
        all.push(step);
        for (node, copy) in copies {
            all.push(self.select(&node, &copy)?);
        }
        Ok(())
    }

    /// `x[i] := where(c, copy[i], x[i])`.
    fn select(&self, node: &TensorNode, copy: &TensorNode) -> Result<ProgramStep, EarlyEndError> {
        let dims = node.dims_without_padding()?;
        let whole = || (dims.clone(), identity_projections(&dims));
        let operands = vec![Default::default(), whole(), whole()];
        let projections = Projections::new(&dims, whole(), operands, "early end")
            .map_err(|source| BuildError::Index { node: node.name(), source })?;
        let rhs = Rhs::Ternary(TernaryOp::Where, [self.condition, copy, node].map(Operand::from));
        let mut steps = builder::accumulate(false, AccumOp::Assign, node, rhs, projections).steps;
        Ok(steps.remove(0))
    }
}

fn made(
    name: &str,
    dims: &[usize],
    like: &TensorNode,
    mode: MemoryMode,
) -> Result<TensorNode, TensorNodeError> {
    let made = TensorNode::builder(name).dims(dims.iter().copied()).dtype(like.dtype());
    match mode {
        MemoryMode::Virtual => {
            made.mode_because(mode, Reason::new("a value of a scan that may end early")).build()
        }
        _ => made.run_sizes(like.run_sizes().into()).build(),
    }
}

fn replace(step: &mut ProgramStep, node: &TensorNode, by: &TensorNode) {
    let operand = |operand: &mut Operand| match operand {
        Operand::Node(read) | Operand::Padded { node: read, .. } if read == node => *read = by.clone(),
        _ => {}
    };
    let accums = match step {
        ProgramStep::Accum(accum) => std::slice::from_mut(&mut **accum),
        ProgramStep::Concat(parts) => &mut parts[..],
        ProgramStep::Fetch { node: filled, .. } | ProgramStep::Detach(filled) if filled == node => {
            *filled = by.clone();
            return;
        }
        _ => return,
    };
    for accum in accums {
        if accum.lhs == *node {
            accum.lhs = by.clone();
        }
        accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed).for_each(operand);
    }
}
