//! Values that the backward pass computes again instead of reading what the forward pass has stored.
//!
//! The statement `recompute h` requests it. Before the first statement of the backward pass that needs `h`,
//! copies of the statements that compute `h` write a new node `h_again`. Only the forward pass reads `h`, so
//! the memory of `h` is free between both passes. The operands of the copied statements are values of the
//! forward pass too: nodes with a request are computed again in turn, and other nodes must be unchanged. A
//! virtual node or a slice that is computed from `h` is computed from `h_again`, and so is a node that one
//! statement computes elementwise from `h` alone, such as `r[i] := relu(h[i])`: many derivatives read the
//! result of an operation instead of its operand, and the request for `h` would have no effect. A member of
//! a family, such as `h[25]`, is stored if other members are requested and it is not: it is a checkpoint,
//! although it is computed from `h[24]` alone.
//!
//! Source: the idea is checkpointing, as in "Algorithm 799: revolve" (Griewank and Walther 2000); here the
//! user chooses the nodes.

use std::collections::{BTreeMap, BTreeSet};

use assignments::indexing::{are_injective, are_surjective};
use assignments::{Accum, AccumOp, FetchOp, Operand, Origin, ProgramStep};
use tnode::TensorNode;

use crate::access::{Access, Target};
use crate::error::{GradientErrorKind, Result};
use crate::forward_program::{ForwardProgram, filled, reads};
use crate::statement::{Statement, Tape, plain_name};

/// The nodes to compute again, and the copies made so far.
#[derive(Default)]
pub(crate) struct Recomputation {
    /// The nodes, each with its request.
    requests: BTreeMap<TensorNode, Origin>,
    /// Nodes that are computed elementwise from nodes with a request, and from no other node.
    followers: BTreeSet<TensorNode>,
    /// The copies, by the node and the position of the last step that has written it.
    copies: BTreeMap<(TensorNode, usize), TensorNode>,
}

impl Recomputation {
    /// For the nodes of `requests`, except for those that the program keeps.
    pub(crate) fn of(
        mut requests: BTreeMap<TensorNode, Origin>,
        kept: &BTreeSet<TensorNode>,
        forward: &ForwardProgram,
    ) -> Recomputation {
        requests.retain(|node, _| !kept.contains(node));
        let mut again: BTreeSet<TensorNode> = requests.keys().cloned().collect();
        let families: BTreeSet<Vec<String>> = requests.keys().filter_map(family).collect();
        let is_left_out = |node: &TensorNode| family(node).is_some_and(|family| families.contains(&family));
        for step in forward.steps().iter().filter(|_| !requests.is_empty()) {
            let Some(node) = forward.written_elementwise(step, &again) else { continue };
            if !kept.contains(node) && !is_left_out(node) {
                again.insert(node.clone());
            }
        }
        again.retain(|node| !requests.contains_key(node));
        Recomputation { requests, followers: again, copies: BTreeMap::new() }
    }

    /// Whether a value that is computed from these nodes is to be computed again.
    fn concerns(&self, sources: &BTreeSet<TensorNode>) -> bool {
        sources.iter().any(|source| self.requests.contains_key(source) || self.followers.contains(source))
    }
}

impl Tape {
    /// A node that holds, where the next step of the backward pass runs, the value that `node` had before
    /// step `from`.
    pub(crate) fn value_before(&mut self, node: &TensorNode, from: usize) -> Result<TensorNode> {
        if let Some(scan) = &self.scan
            && scan.scan.written.contains(node)
        {
            return self.value_in_scan(node, from);
        }
        match self.repeated_steps(node, from)? {
            Some(steps) => self.repeat(node, &steps),
            None => self.forward.value_before(node, from),
        }
    }

    /// The positions of the steps to repeat for the value that `node` had before step `from`; none if the
    /// node is not computed again.
    fn repeated_steps(&self, node: &TensorNode, from: usize) -> Result<Option<Vec<usize>>> {
        let requests = &self.recomputation.requests;
        if requests.is_empty() || self.forward.is_in_order() {
            return Ok(None);
        }
        let sources = self.forward.sources(node);
        if !self.recomputation.concerns(&sources) {
            return Ok(None);
        }
        match (self.complete_steps(node, from, &sources), requests.get(node)) {
            (Ok(steps), _) => Ok(Some(steps)),
            (Err(obstacle), Some(request)) => Err(obstacle.at(request.target())),
            // Nobody has asked for this node, and its own value is as good.
            (Err(_), None) => Ok(None),
        }
    }

    /// The positions of the steps that compute `node` before step `from`, from the last one that ends all
    /// older values.
    fn complete_steps(
        &self,
        node: &TensorNode,
        from: usize,
        sources: &BTreeSet<TensorNode>,
    ) -> Result<Vec<usize>, GradientErrorKind> {
        let name = || node.name();
        let steps = self.forward.steps();
        let writes = self.forward.writes_before(node, from);
        let first = match writes.iter().rposition(|&at| ends_older_values(&steps[at], node)) {
            None if node.mode().known_virtual() => 0,
            first => first.ok_or_else(|| GradientErrorKind::RecomputedValues { node: name() })?,
        };
        let Some(&last) = writes.last() else {
            return Err(GradientErrorKind::RecomputedValues { node: name() });
        };
        let is_own_id =
            |&at: &usize| matches!(steps[at], ProgramStep::Fetch { op: FetchOp::EmbedSelfId, .. });
        if writes[first..].iter().any(is_own_id) {
            return Err(GradientErrorKind::RecomputedValues { node: name() });
        }
        // The value of a virtual node or of a slice changes with its sources.
        let later = sources.iter().filter(|source| *source != node);
        let mut changed =
            later.filter(|source| self.forward.next_change(source, last).is_some_and(|at| at < from));
        let mut inputs = writes[first..].iter().flat_map(|&at| self.changed_inputs(node, at));
        match changed.next().cloned().or_else(|| inputs.next()) {
            Some(input) => Err(GradientErrorKind::RecomputedInput { node: name(), input: input.name() }),
            None => Ok(writes[first..].to_vec()),
        }
    }

    /// The nodes from which step `at` computes `node` that no longer have the same values after the program,
    /// without the nodes that are computed again too.
    fn changed_inputs(&self, node: &TensorNode, at: usize) -> Vec<TensorNode> {
        let step = &self.forward.steps()[at];
        let is_requested = |source: &TensorNode| self.recomputation.requests.contains_key(source);
        let own = step.accums().iter().filter(|accum| accum.lhs == *node).flat_map(Accum::operands);
        let read: Vec<&TensorNode> = match step {
            ProgramStep::Fetch { .. } => reads(step),
            _ => own.filter_map(Operand::node).collect(),
        };
        let sources = read.into_iter().flat_map(|read| self.forward.sources(read));
        let changed = |source: &TensorNode| self.forward.next_change(source, at).is_some();
        sources.filter(|source| source != node && !is_requested(source) && changed(source)).collect()
    }

    /// Appends copies of the steps that write `node` at these positions, unless that was done before. Returns
    /// the node that they write.
    pub(crate) fn repeat(&mut self, node: &TensorNode, steps: &[usize]) -> Result<TensorNode> {
        let version = (node.clone(), steps.last().copied().unwrap_or_default());
        if let Some(copy) = self.recomputation.copies.get(&version) {
            return Ok(copy.clone());
        }
        let name = format!("{}_again", plain_name(node));
        let copy = self.temporary_like(node, &name, node.dtype())?;
        let origin = self.forward.steps()[version.1].origin().clone();
        let rest = match steps.iter().rposition(|&at| overwrites_a_part(&self.forward.steps()[at], node)) {
            // Other steps may have read the older values, which are lost in the node that is overwritten.
            Some(last) if last > 0 => {
                let older = self.repeat(node, &steps[..last])?;
                self.copy(&older, &copy, &origin)?;
                &steps[last..]
            }
            _ => steps,
        };
        if self.is_partial(node, steps) {
            self.backward.push(filled(&copy, 0.0, &origin));
        }
        for &at in rest {
            self.repeat_step(at, node, &copy)?;
        }
        self.recomputation.copies.insert(version, copy.clone());
        Ok(copy)
    }

    /// Whether steps leave elements of a virtual node without a value.
    fn is_partial(&self, node: &TensorNode, steps: &[usize]) -> bool {
        !steps.iter().any(|&at| ends_older_values(&self.forward.steps()[at], node))
    }

    /// Appends a copy of step `at` that writes `copy` instead of `node`.
    fn repeat_step(&mut self, at: usize, node: &TensorNode, copy: &TensorNode) -> Result<()> {
        let step = self.forward.steps()[at].clone();
        let repeated = match &step {
            ProgramStep::Fetch { op, origin, .. } => {
                let op = self.fetched_before(op, at)?;
                ProgramStep::Fetch { node: copy.clone(), op, origin: origin.clone() }
            }
            ProgramStep::Concat(parts) => ProgramStep::Concat(self.parts_into(parts, node, copy, at)?),
            _ => match self.parts_into(step.accums(), node, copy, at)?.pop() {
                Some(accum) => ProgramStep::Accum(Box::new(accum)),
                None => return Ok(()),
            },
        };
        self.backward.push(repeated);
        Ok(())
    }

    /// The accumulations of step `at` into `node`, which write `copy` instead.
    fn parts_into(
        &mut self,
        parts: &[Accum],
        node: &TensorNode,
        copy: &TensorNode,
        at: usize,
    ) -> Result<Vec<Accum>> {
        let parts: Vec<&Accum> = parts.iter().filter(|accum| accum.lhs == *node).collect();
        let projections: Vec<_> = parts.iter().map(|accum| &accum.projections).collect();
        let once = are_injective(&projections);
        let mut repeated = Vec::new();
        for accum in parts {
            let statement = Statement::new(accum, at, once, self)?;
            let target = Target::new(copy, accum.init_neutral, accum.op, Access::at_target(copy, accum));
            repeated.push(statement.stored_values(target, self)?);
        }
        Ok(repeated)
    }

    fn fetched_before(&mut self, op: &FetchOp, at: usize) -> Result<FetchOp> {
        Ok(match op {
            FetchOp::Slice { index, of } => FetchOp::Slice { index: *index, of: self.value_before(of, at)? },
            FetchOp::Order { of, axis, is_descending } => {
                let of = self.value_before(of, at)?;
                FetchOp::Order { of, axis: *axis, is_descending: *is_descending }
            }
            FetchOp::SampleValues(samples) => {
                let of = self.value_before(&samples.of, at)?;
                FetchOp::SampleValues(assignments::SampleValues { of, ..samples.clone() })
            }
            op => op.clone(),
        })
    }
}

/// The first parts of the label of a node that is a member of a family.
fn family(node: &TensorNode) -> Option<Vec<String>> {
    let (last, first) = node.label().split_last()?;
    let is_position = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    (is_position && !first.is_empty()).then(|| first.to_vec())
}

/// Whether a step gives all elements of a node new values.
pub(crate) fn ends_older_values(step: &ProgramStep, node: &TensorNode) -> bool {
    let parts: Vec<&Accum> = step.accums().iter().filter(|accum| accum.lhs == *node).collect();
    let Some(first) = parts.first() else { return matches!(step, ProgramStep::Fetch { .. }) };
    let all: Vec<_> = parts.iter().map(|accum| &accum.projections).collect();
    first.init_neutral || (first.op == AccumOp::Assign && are_surjective(&all))
}

/// Whether a step stores values in some elements of a node and keeps the others.
fn overwrites_a_part(step: &ProgramStep, node: &TensorNode) -> bool {
    let stores = |accum: &Accum| accum.lhs == *node && accum.op == AccumOp::Assign;
    step.accums().iter().any(stores) && !ends_older_values(step, node)
}
