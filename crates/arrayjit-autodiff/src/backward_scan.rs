//! The derivative of a scan: a scan over the same letter in the other direction.
//!
//! Its body differentiates the steps of one iteration. An adjoint that the iteration before reads is carried
//! in one node: it holds the adjoint of the values behind the iteration when the body starts, and that of the
//! values before it when the body ends. A node that no step writes, such as a parameter, has one version and
//! one adjoint, which grows in every iteration.
//!
//! The forward pass of a scan with a condition stores the condition of each iteration, behind zeros for those
//! that do not run. Where it is 0, the iteration of the backward pass leaves everything as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use assignments::indexing::{AxisIndex, identity_projections};
use assignments::{Accum, AccumOp, Operand, Origin, ProgramStep, ScanEnd};
use lowered_ir::ir::Var;
use tnode::TensorNode;

use crate::access::{Access, Operation, Target, derived, each_element};
use crate::backward::{Adjoint, BackwardPass};
use crate::error::Result;
use crate::forward_program::{filled, formula, targets};
use crate::recompute::ends_older_values;
use crate::scans::{OpenScan, ScanRange, backwards, substitute};
use crate::statement::{Tape, plain_name};

impl BackwardPass<'_> {
    /// Differentiates a scan.
    pub(crate) fn scan(&mut self, scan: &Arc<ScanRange>) -> Result<()> {
        let (nodes, before) = self.carried(scan);
        if nodes.is_empty() {
            return Ok(());
        }
        let origin = self.tape.forward.steps()[scan.range.start].origin().clone();
        let mut fresh = Vec::new();
        for node in &nodes {
            self.enter(node, scan, &mut fresh)?;
        }
        let carried = nodes.iter().filter(|node| scan.written.contains(*node));
        let carried: Vec<(TensorNode, TensorNode)> =
            carried.map(|node| (node.clone(), self.adjoints[node].node.clone())).collect();
        let mut outer = std::mem::take(&mut self.tape.backward);
        self.tape.scan =
            Some(OpenScan { scan: scan.clone(), stored: Default::default(), partial: Vec::new() });
        let end = self.tape.backward_end(scan)?;
        for at in scan.range.clone().rev() {
            self.step_at(at)?;
        }
        let partial = self.tape.scan.take().map_or_else(Vec::new, |open| open.partial);
        for (node, adjoint) in carried {
            match self.adjoints.remove(&node) {
                Some(found) if found.node == adjoint => {}
                Some(found) => self.tape.copy(&found.node, &adjoint, &origin)?,
                None => self.tape.backward.push(filled(&adjoint, 0.0, &origin)),
            }
            if before.contains(&node) {
                self.adjoints.insert(node, Adjoint { node: adjoint, sparse: true, given: false });
            }
        }
        let body = std::mem::take(&mut self.tape.backward);
        // An adjoint that each iteration starts has values also if none runs.
        let started = fresh.into_iter().filter(|adjoint| end.is_some() || reads_first(&body, adjoint));
        outer.extend(started.map(|adjoint| filled(&adjoint, 0.0, &origin)));
        self.tape.backward = outer;
        let mut body = scan.without_restarts(body);
        let backward = match &scan.segments {
            Some(segments) => self.divided(scan, segments, body, (end, partial))?,
            None => {
                substitute(&mut body, scan.symbol, &backwards(scan.symbol, scan.extent));
                for steps in partial {
                    self.tape.forward.insert_before_scan(scan, filled(&steps, 0.0, &origin));
                }
                ProgramStep::Scan { symbol: scan.symbol, steps: body, end }
            }
        };
        self.tape.backward.push(backward);
        Ok(())
    }

    /// Makes sure that a node has an adjoint that the body of a scan may change. Those that start from 0 are
    /// added to `fresh`.
    fn enter(&mut self, node: &TensorNode, scan: &ScanRange, fresh: &mut Vec<TensorNode>) -> Result<()> {
        let is_written = scan.written.contains(node);
        match self.adjoints.get(node).cloned() {
            Some(adjoint) if is_written && adjoint.given => {
                let older = self.older(&Adjoint { sparse: true, ..adjoint.clone() }, node)?;
                self.tape.copy(&adjoint.node, &older, Origin::unknown())?;
            }
            Some(adjoint) => {
                let sparse = adjoint.sparse || is_written;
                self.adjoints.insert(node.clone(), Adjoint { sparse, ..adjoint });
            }
            None if is_written => {
                let adjoint = self.tape.adjoint_of(node)?;
                fresh.push(adjoint.clone());
                self.adjoints.insert(node.clone(), Adjoint { node: adjoint, sparse: true, given: false });
            }
            None => {
                let (adjoint, _) = self.adjoint(node, scan.range.end)?;
                adjoint.sparse = true;
                fresh.push(adjoint.node.clone());
            }
        }
        Ok(())
    }

    /// The nodes that have an adjoint at the end of some iteration, and those that have one at its start.
    fn carried(&self, scan: &ScanRange) -> (BTreeSet<TensorNode>, BTreeSet<TensorNode>) {
        let behind = self.adjoints.keys().filter(|node| scan.written.contains(*node));
        let mut nodes: BTreeSet<TensorNode> = behind.cloned().collect();
        loop {
            let mut before = nodes.clone();
            for at in scan.range.clone().rev() {
                self.before_step(at, &mut before);
            }
            // Where the iteration does not run, all adjoints are those behind it.
            if scan.end.is_some() {
                before.extend(nodes.iter().cloned());
            }
            if before.is_subset(&nodes) {
                return (nodes, before);
            }
            nodes.extend(before);
        }
    }

    /// Turns the nodes that have an adjoint behind a step into those that have one before it.
    fn before_step(&self, at: usize, nodes: &mut BTreeSet<TensorNode>) {
        let (forward, step) = (&self.tape.forward, &self.tape.forward.steps()[at]);
        if let ProgramStep::Detach(node) = step {
            nodes.remove(node);
        }
        let mut read = Vec::new();
        for node in targets(step) {
            if !nodes.contains(&node) {
                continue;
            }
            let is_active = forward.is_active_after(at, &node);
            if !is_active || ends_older_values(step, &node) || !forward.is_active_before(at, &node) {
                nodes.remove(&node);
            }
            let accums = step.accums().iter().filter(|accum| is_active && accum.lhs == node);
            for (accum, position) in
                accums.flat_map(|accum| (0..accum.operands().count()).map(move |p| (accum, p)))
            {
                let operand = accum.rhs.operands().get(position).and_then(Operand::node);
                let node = operand.filter(|node| forward.is_active_before(at, node));
                read.extend(node.filter(|_| formula(accum, position).is_some()).cloned());
            }
        }
        nodes.extend(read);
    }
}

/// The bytes of the elements of a node.
pub(crate) fn bytes_of(node: &TensorNode) -> Result<u64> {
    Ok(node.num_elems()? as u64 * node.dtype().size_bytes() as u64)
}

/// Whether steps need the values that a node has before the first of them.
pub(crate) fn reads_first(steps: &[ProgramStep], node: &TensorNode) -> bool {
    let reads = |accum: &Accum| accum.operands().any(|operand| operand.node() == Some(node));
    let mentions = |step: &&ProgramStep| step.accums().iter().any(reads) || targets(step).contains(node);
    let first = steps.iter().find(mentions);
    first.is_some_and(|step| step.accums().iter().any(reads) || !ends_older_values(step, node))
}

impl Tape {
    /// A node that holds, where the next step of the backward scan runs, the value that a node of the scan
    /// had before step `from` of the same iteration.
    pub(crate) fn value_in_scan(&mut self, node: &TensorNode, from: usize) -> Result<TensorNode> {
        let Some(OpenScan { scan, .. }) = &self.scan else { return Ok(node.clone()) };
        let scan = scan.clone();
        let writes = self.forward.writes_before(node, from);
        let writes = writes[writes.partition_point(|&at| at < scan.range.start)..].to_vec();
        if node.mode().known_virtual() {
            return self.repeat(node, &writes);
        }
        if scan.keeps(node) {
            return self.forward.value_before(node, scan.range.end);
        }
        let version = writes.last().map_or(scan.range.start, |&last| last + 1);
        let key = (node.clone(), version);
        if let Some(value) = self.scan.as_ref().and_then(|scan| scan.stored.get(&key)) {
            return Ok(value.clone());
        }
        let value = self.stored_value(node, &scan, version)?;
        if let Some(open) = &mut self.scan {
            open.stored.insert(key, value.clone());
        }
        Ok(value)
    }

    /// Stores the condition of a scan in each iteration, and reads it again.
    fn backward_end(&mut self, scan: &ScanRange) -> Result<Option<ScanEnd>> {
        let Some((end, behind)) = &scan.end else { return Ok(None) };
        let node = self.stored_value(&end.node, scan, *behind)?;
        Ok(Some(ScanEnd { node, is_final: false }))
    }

    /// Stores the value that a node has before the step at `at` of each iteration, and reads it again.
    fn stored_value(&mut self, node: &TensorNode, scan: &ScanRange, at: usize) -> Result<TensorNode> {
        let dims = node.dims_without_padding()?;
        let (symbol, extent) = scan.stored_by();
        let extent = usize::try_from(extent).unwrap_or(usize::MAX);
        let all: Vec<usize> = std::iter::once(extent).chain(dims.iter().copied()).collect();
        *self.stored_bytes.entry(scan.symbol).or_default() += bytes_of(node)?;
        let name = plain_name(node);
        let steps = self.temporary(&format!("{name}_steps"), &all, node.dtype())?;
        // A padded or computed read of the value ends where that of the node does.
        let value = self.temporary_like(node, &format!("{name}_now"), node.dtype())?;
        let letter = AxisIndex::Iterator(Var::Symbol(symbol));
        let index: Vec<AxisIndex> = std::iter::once(letter).chain(identity_projections(&dims)).collect();
        let row = Access::new(&steps, &all, &index);
        let origin = at.checked_sub(1).map_or(Origin::unknown(), |at| self.forward.steps()[at].origin());
        let points = each_element(node, &dims, origin);
        let target = |node: &TensorNode, access: Access| Target::new(node, false, AccumOp::Assign, access);
        let whole = |node: &TensorNode| Access::at_target(node, &points);
        let copied = |target: Target, source: Access| {
            derived(&points, |_| None, target, Operation::Copy, &[source]).map(Box::new)
        };
        let store = copied(target(&steps, row.clone()), whole(node))?;
        let load = copied(target(&value, whole(&value)), row)?;
        self.forward.insert_in_scan(scan, at, ProgramStep::Accum(store));
        self.backward.push(ProgramStep::Accum(load));
        if let Some(open) = self.scan.as_mut().filter(|_| scan.end.is_some()) {
            open.partial.push(steps);
        }
        Ok(value)
    }
}
