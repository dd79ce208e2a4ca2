//! The backward pass of a scan with checkpoints.
//!
//! The scan is divided into segments. The forward pass stores the values that the steps carry where a segment
//! starts. The backward pass takes the segments from the last one to the first. It computes the steps of a
//! segment again from its checkpoint, in nodes of its own, and stores what their derivatives read, in arrays
//! with an axis for the steps of one segment. Nodes that have the values of all steps are not computed again.
//!
//! Source: Griewank, Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
//! differentiation, 1992; here in one level.

use std::collections::{BTreeMap, BTreeSet};

use assignments::indexing::{AxisIndex, StaticSymbol, identity_projections};
use assignments::{
    Accum, AccumOp, Assignments, FetchOp, Operand, Origin, ProgramStep, ScanEnd, Warning, WarningKind,
};
use lowered_ir::ir::{SymbolId, Var};
use tnode::{MemoryMode, TensorNode};

use crate::access::{Access, Operation, Target, derived, each_element};
use crate::backward::BackwardPass;
use crate::backward_scan::{bytes_of, reads_first};
use crate::error::Result;
use crate::forward_program::{filled, reads, targets};
use crate::name_supply::numbered;
use crate::scans::{ScanRange, Segments, accums_mut, backwards, substitute};
use crate::statement::{Tape, plain_name};

impl Segments {
    /// A loop over the segments, with some steps and then loops over the steps of a segment, in the letter of
    /// the undivided scan, each with its condition.
    pub(crate) fn loops(
        &self,
        (mut start, end): (Vec<ProgramStep>, Option<ScanEnd>),
        bodies: Vec<(SymbolId, Vec<ProgramStep>, Option<ScanEnd>)>,
    ) -> ProgramStep {
        for (letter, mut steps, end) in bodies {
            substitute(&mut steps, letter, &self.letter());
            start.push(ProgramStep::Scan { symbol: self.step, steps, end });
        }
        ProgramStep::Scan { symbol: self.segment, steps: start, end }
    }
}

impl BackwardPass<'_> {
    /// The backward pass of a divided scan whose iterations have the backward pass `body`.
    pub(crate) fn divided(
        &mut self,
        scan: &ScanRange,
        segments: &Segments,
        mut body: Vec<ProgramStep>,
        (end, partial): (Option<ScanEnd>, Vec<TensorNode>),
    ) -> Result<ProgramStep> {
        let again = self.tape.nodes_again(scan)?;
        let (mut stores, mut loads) = (Vec::new(), Vec::new());
        loads.extend(partial.iter().map(|steps| filled(steps, 0.0, Origin::unknown())));
        let end_again = scan.end.as_ref().map(|(end, _)| {
            let node = again.get(&end.node).unwrap_or(&end.node).clone();
            ScanEnd { node, ..end.clone() }
        });
        for node in self.tape.carried(scan) {
            let (stored, store, load) = self.tape.checkpoint(&node, &again[&node], segments)?;
            // Segments behind the end of the scan end at once, since the condition is 0 there.
            if scan.end.is_some() {
                self.tape.forward.insert_before_scan(scan, filled(&stored, 0.0, Origin::unknown()));
            }
            stores.push(store);
            loads.push(load);
        }
        let forward = self.tape.forward.divide(scan, segments, stores);
        let outer = std::mem::take(&mut self.tape.backward);
        let mut steps = Vec::new();
        for step in forward {
            steps.extend(self.tape.step_again(step, scan, &again)?);
        }
        let steps = without_unread(steps);
        // Copies of values that a later step overwrites are made before the loops.
        let copies = std::mem::replace(&mut self.tape.backward, outer);
        self.tape.backward.extend(copies);
        substitute(&mut body, scan.symbol, &segments.letter());
        substitute(&mut body, segments.step, &backwards(segments.step, segments.every));
        let bodies = vec![(scan.symbol, steps, end_again), (scan.symbol, body, end)];
        let mut both = segments.loops((loads, None), bodies);
        substitute(
            std::slice::from_mut(&mut both),
            segments.segment,
            &backwards(segments.segment, segments.count),
        );
        Ok(both)
    }
}

/// Removes the steps that compute virtual nodes without a use: the statements that read them are not computed
/// again. A virtual node without a use cannot be inlined in a scan with a condition.
fn without_unread(steps: Vec<ProgramStep>) -> Vec<ProgramStep> {
    let mut read: BTreeSet<TensorNode> = BTreeSet::new();
    let mut kept = Vec::with_capacity(steps.len());
    for step in steps.into_iter().rev() {
        let targets = targets(&step);
        let is_used = |node: &TensorNode| !node.mode().known_virtual() || read.contains(node);
        if targets.is_empty() || targets.iter().any(is_used) {
            read.extend(reads(&step).into_iter().cloned());
            kept.push(step);
        }
    }
    kept.reverse();
    kept
}

/// The number of steps from one checkpoint to the next with which a scan of `steps` steps stores the fewest
/// bytes, and these bytes. It stores `row` bytes for each step of a segment, and `carried` for each segment.
fn best_checkpoints(steps: i64, row: u64, carried: u64) -> (i64, u64) {
    let undivided = row.saturating_mul(steps.unsigned_abs());
    let bytes = |every: i64| {
        let [every, count] = [every, steps / every].map(i64::unsigned_abs);
        row.saturating_mul(every).saturating_add(carried.saturating_mul(count))
    };
    let up_to_root = (1..).take_while(|low| low * low <= steps).filter(|low| steps % low == 0);
    let divisors = up_to_root.flat_map(|low| [low, steps / low]).filter(|&every| every < steps);
    let divided = divisors.map(|every| (every, bytes(every)));
    divided
        .chain([(steps, undivided)])
        .min_by_key(|&(every, bytes)| (bytes, -every))
        .unwrap_or((steps, undivided))
}

impl Tape {
    /// Adds the checkpoints that store the fewest bytes to each scan that has none and stores more than
    /// `limit` bytes, and a warning where these are still more. Returns whether there are such scans.
    pub(crate) fn add_checkpoints(&self, limit: u64, program: &mut Assignments) -> Result<bool> {
        let known = program.checkpoints.len();
        for scan in self.forward.scans() {
            let row = self.stored_bytes.get(&scan.symbol).copied().unwrap_or(0);
            let is_within = row.saturating_mul(scan.extent.unsigned_abs()) <= limit;
            if is_within || scan.segments.is_some() {
                continue;
            }
            let carried = self.carried(scan).iter().map(bytes_of).sum::<Result<u64>>()?;
            let steps = &self.forward.steps()[scan.range.clone()];
            let (every, bytes) = match scan.is_divisible(steps) {
                true => best_checkpoints(scan.extent, row, carried),
                false => (scan.extent, row.saturating_mul(scan.extent.unsigned_abs())),
            };
            if bytes > limit {
                let letter = program.symbols.get(scan.symbol.index()).and_then(StaticSymbol::letter);
                let letter = letter.unwrap_or_default().to_owned();
                let kind = WarningKind::ScanGradientBytes { letter, steps: scan.extent, bytes, limit };
                let span = steps.first().and_then(|step| step.origin().target());
                program.warnings.push(Warning::new(kind, span));
            }
            if every < scan.extent {
                program.checkpoints.insert(scan.symbol, every);
            }
        }
        Ok(program.checkpoints.len() > known)
    }

    /// The nodes that carry values from one step of a scan to the next, and that later steps overwrite.
    fn carried(&self, scan: &ScanRange) -> Vec<TensorNode> {
        let steps = &self.forward.steps()[scan.range.clone()];
        let carries = |node: &&TensorNode| !node.mode().known_virtual() && reads_first(steps, node);
        scan.written.iter().filter(|node| !scan.keeps(node)).filter(carries).cloned().collect()
    }

    /// A new node for each node that a scan computes again.
    fn nodes_again(&mut self, scan: &ScanRange) -> Result<BTreeMap<TensorNode, TensorNode>> {
        let mut again = BTreeMap::new();
        for node in scan.written.iter().filter(|node| !scan.keeps(node)) {
            let name = format!("{}_again", plain_name(node));
            let name = self.forward.names.unused(|number| numbered(&name, number));
            let copy = TensorNode::builder(name).dims(node.dims_without_padding()?);
            let copy = copy.run_sizes(node.run_sizes().into()).dtype(node.dtype());
            let is_virtual = node.mode().known_virtual();
            let copy = if is_virtual { copy.mode(MemoryMode::Virtual) } else { copy };
            again.insert(node.clone(), copy.build()?);
        }
        Ok(again)
    }

    /// The array that stores a node where a segment starts, the step that stores it, and the one that loads
    /// it into another node.
    fn checkpoint(
        &mut self,
        node: &TensorNode,
        copy: &TensorNode,
        segments: &Segments,
    ) -> Result<(TensorNode, ProgramStep, ProgramStep)> {
        let dims = node.dims_without_padding()?;
        let count = usize::try_from(segments.count).unwrap_or(usize::MAX);
        let all: Vec<usize> = std::iter::once(count).chain(dims.iter().copied()).collect();
        let stored = self.temporary(&format!("{}_checkpoints", plain_name(node)), &all, node.dtype())?;
        let segment = AxisIndex::Iterator(Var::Symbol(segments.segment));
        let index: Vec<AxisIndex> = std::iter::once(segment).chain(identity_projections(&dims)).collect();
        let row = Access::new(&stored, &all, &index);
        let points = each_element(node, &dims, Origin::unknown());
        let copied = |node: &TensorNode, to: Access, from: Access| {
            let target = Target::new(node, false, AccumOp::Assign, to);
            let accum = derived(&points, |_| None, target, Operation::Copy, &[from])?;
            Ok(ProgramStep::Accum(Box::new(accum)))
        };
        let whole = |node: &TensorNode| Access::at_target(node, &points);
        let store: Result<ProgramStep> = copied(&stored, row.clone(), whole(node));
        Ok((stored.clone(), store?, copied(copy, whole(copy), row)?))
    }

    /// A step of a scan that writes and reads the nodes `again` instead of its own; none if it writes only
    /// nodes that still have its values.
    fn step_again(
        &mut self,
        mut step: ProgramStep,
        scan: &ScanRange,
        again: &BTreeMap<TensorNode, TensorNode>,
    ) -> Result<Option<ProgramStep>> {
        let is_known = |node: &TensorNode| scan.keeps(node);
        match &mut step {
            ProgramStep::Accum(accum) if is_known(&accum.lhs) => return Ok(None),
            ProgramStep::Concat(parts) => {
                parts.retain(|part| !is_known(&part.lhs));
                if parts.is_empty() {
                    return Ok(None);
                }
            }
            ProgramStep::Fetch { node, op, .. } => {
                if is_known(node) {
                    return Ok(None);
                }
                *node = again.get(node).unwrap_or(node).clone();
                match op {
                    FetchOp::Order { of, .. } => *of = self.node_again(of, scan, again)?,
                    FetchOp::SampleValues(samples) => {
                        samples.of = self.node_again(&samples.of, scan, again)?
                    }
                    _ => {}
                }
            }
            ProgramStep::Detach(_) => return Ok(None),
            _ => {}
        }
        for accum in accums_mut(&mut step) {
            self.accum_again(accum, scan, again)?;
        }
        Ok(Some(step))
    }

    fn accum_again(
        &mut self,
        accum: &mut Accum,
        scan: &ScanRange,
        again: &BTreeMap<TensorNode, TensorNode>,
    ) -> Result<()> {
        accum.lhs = again.get(&accum.lhs).unwrap_or(&accum.lhs).clone();
        for operand in accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed) {
            if let Operand::Node(node) | Operand::Padded { node, .. } = operand {
                *node = self.node_again(node, scan, again)?;
            }
        }
        Ok(())
    }

    /// The node with the values that a step of the scan has read in a node.
    fn node_again(
        &mut self,
        node: &TensorNode,
        scan: &ScanRange,
        again: &BTreeMap<TensorNode, TensorNode>,
    ) -> Result<TensorNode> {
        match again.get(node) {
            Some(node) => Ok(node.clone()),
            None if scan.written.contains(node) => self.forward.value_before(node, scan.range.end),
            None => self.value_before(node, scan.range.start),
        }
    }
}
