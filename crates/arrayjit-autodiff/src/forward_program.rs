//! The program to differentiate: its steps in order, the nodes that depend on parameters, and the values that
//! later steps overwrite.
//!
//! The versions of a node are told apart as in static single assignment form: a write ends one version and
//! begins the next. A version is *active* if it depends on a parameter by operations with a derivative.
//! Parameters stand for the values that they have when the loss is complete: what later steps write, such as
//! the update of an optimizer, has no effect on the gradient.
//!
//! The backward pass runs behind the program. A value that it needs may be overwritten by then; such a value
//! is copied just before the step that overwrites it. The value of a virtual node or of a slice changes with
//! the nodes that it is computed from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assignments::indexing::are_surjective;
use assignments::{Accum, AccumOp, Assignments, FetchOp, Operand, Origin, ProgramStep, Rhs};
use lowered_ir::ir::SymbolId;
use tnode::{DType, MemoryMode, TensorNode};

use crate::Formula;
use crate::access::{Access, Operation, Target, derived, each_element};
use crate::error::{GradientErrorKind, Result};
use crate::name_supply::{NameSupply, numbered};
use crate::recompute::ends_older_values;
use crate::rules::{self, Derivative};
use crate::scans::{FlatProgram, ScanRange, Segments};
use crate::statement::plain_name;

#[derive(Default)]
pub(crate) struct ForwardProgram {
    /// Whether derivatives are computed beside each step, where no value is overwritten yet, and not behind
    /// the program.
    in_order: bool,
    /// The number of steps of the program that are left out before the first one.
    start: usize,
    /// The position behind the last step that writes the loss.
    end: usize,
    /// The steps that are no blocks and no scans, in order.
    steps: Vec<ProgramStep>,
    /// The scans, in order.
    scans: Vec<Arc<ScanRange>>,
    /// The positions of the steps that write each node, in order.
    writes: BTreeMap<TensorNode, Vec<usize>>,
    /// The operation that accumulates the values of each virtual node.
    readers: BTreeMap<TensorNode, AccumOp>,
    /// The nodes that the backward pass writes.
    overwritten: BTreeSet<TensorNode>,
    /// The parent of each slice.
    parents: BTreeMap<TensorNode, TensorNode>,
    /// The slices of each parent.
    slices: BTreeMap<TensorNode, BTreeSet<TensorNode>>,
    /// For each step, the active nodes that it mentions: before it, and after it.
    active: Vec<[BTreeSet<TensorNode>; 2]>,
    /// The copies made before a step, by the node copied and the position of the step.
    saved: BTreeMap<(TensorNode, usize), TensorNode>,
    /// The steps to be inserted before a step; in a scan, before the scan.
    inserted: BTreeMap<usize, Vec<ProgramStep>>,
    /// The steps to be inserted in a scan, by its first step and the step before which they stand.
    inserted_in_scans: BTreeMap<(usize, usize), Vec<ProgramStep>>,
    /// The steps before each segment of a divided scan, by the first step of the scan.
    divided: BTreeMap<usize, (Segments, Vec<ProgramStep>)>,
    /// The names that new nodes avoid.
    pub(crate) names: NameSupply,
}

/// Visits the step at a position, with a set of nodes that it may change.
type Visit<'a> = dyn FnMut(usize, &mut BTreeSet<TensorNode>, bool) -> Result<()> + 'a;

impl ForwardProgram {
    /// Analyzes steps that are no blocks. The gradient of the loss by each of the parameters is stored in the
    /// node with it. `names` has the names of the program's nodes.
    pub(crate) fn new(
        FlatProgram { start, steps, scans }: FlatProgram,
        loss: &TensorNode,
        parameters: &[(TensorNode, TensorNode)],
        names: NameSupply,
    ) -> Result<ForwardProgram> {
        let overwritten = parameters.iter().map(|(_, gradient)| gradient.clone()).collect();
        let end = end_of(loss, &steps);
        let end = scans.iter().find(|scan| scan.range.contains(&end)).map_or(end, |scan| scan.range.end);
        let program =
            ForwardProgram { start, steps, scans, end, overwritten, names, ..ForwardProgram::default() };
        program.analyzed(parameters)
    }

    /// Analyzes a program without scans, whose derivatives are computed beside each step. Parameters stand
    /// for the values that they have before the first step.
    pub(crate) fn in_order(
        program: &Assignments,
        parameters: &[(TensorNode, TensorNode)],
    ) -> Result<ForwardProgram> {
        let steps = FlatProgram::new(&program.steps, &program.symbols).steps;
        let names = names_of(&steps, parameters);
        let end = steps.len();
        ForwardProgram { steps, end, in_order: true, names, ..ForwardProgram::default() }.analyzed(parameters)
    }

    fn analyzed(mut self, parameters: &[(TensorNode, TensorNode)]) -> Result<ForwardProgram> {
        for (at, step) in self.steps.iter().enumerate() {
            step.accums().iter().try_for_each(check_operands)?;
            for node in targets(step) {
                self.writes.entry(node).or_default().push(at);
            }
            if let ProgramStep::Fetch { node, op: FetchOp::Slice { of, .. }, .. } = step {
                self.parents.insert(node.clone(), of.clone());
                self.slices.entry(of.clone()).or_default().insert(node.clone());
            }
        }
        for accum in self.steps.iter().rev().flat_map(|step| step.accums().iter().rev()) {
            let op = self.reader(accum);
            let read = accum.operands().filter_map(Operand::node).filter(|node| node.mode().known_virtual());
            let read: Vec<TensorNode> = read.cloned().collect();
            self.readers.extend(read.into_iter().map(|node| (node, op)));
        }
        let nodes: Vec<TensorNode> = parameters.iter().map(|(parameter, _)| parameter.clone()).collect();
        self.find_active(&nodes)?;
        Ok(self)
    }

    pub(crate) fn steps(&self) -> &[ProgramStep] {
        &self.steps
    }

    /// The operation whose neutral element an accumulation reads in margins: its own, or for the node of a
    /// subexpression, that of the statement which reads the node.
    pub(crate) fn reader(&self, accum: &Accum) -> AccumOp {
        match accum.op {
            AccumOp::Assign => self.readers.get(&accum.lhs).copied().unwrap_or(AccumOp::Assign),
            op => op,
        }
    }

    /// Whether derivatives are computed beside each step.
    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether the version of a node that a step reads, or keeps in part, is active.
    pub(crate) fn is_active_before(&self, at: usize, node: &TensorNode) -> bool {
        self.active[at][0].contains(node)
    }

    /// Whether the version of a node that a step makes is active.
    pub(crate) fn is_active_after(&self, at: usize, node: &TensorNode) -> bool {
        self.active[at][1].contains(node)
    }

    /// Whether no step from position `at` on writes the node before the loss is complete.
    pub(crate) fn is_last_version(&self, node: &TensorNode, at: usize) -> bool {
        let at = self.scan_at(at).map_or(at, |scan| scan.range.start);
        self.last_write(node).is_none_or(|last| last < at)
    }

    /// The scan that contains the step at a position.
    fn scan_at(&self, at: usize) -> Option<&Arc<ScanRange>> {
        self.scans.iter().find(|scan| scan.range.contains(&at))
    }

    /// The scan whose last step is the one before a position.
    pub(crate) fn scan_before(&self, at: usize) -> Option<&Arc<ScanRange>> {
        self.scans.iter().find(|scan| scan.range.end == at)
    }

    /// Walks over the steps in the order in which they run, with the nodes that have some property before and
    /// after each step. The steps of a scan are walked over until these nodes are the same in each iteration;
    /// `visit` is told whether that is the last time.
    fn walk(&self, end: usize, nodes: &mut BTreeSet<TensorNode>, visit: &mut Visit<'_>) -> Result<()> {
        let mut at = 0;
        while at < end {
            let Some(scan) = self.scan_at(at) else {
                visit(at, nodes, true)?;
                at += 1;
                continue;
            };
            let mut is_same = scan.extent == 1;
            while !is_same {
                let before = nodes.clone();
                scan.range.clone().try_for_each(|at| visit(at, nodes, false))?;
                is_same = nodes.is_subset(&before);
                nodes.extend(before);
            }
            let before = nodes.clone();
            scan.range.clone().try_for_each(|at| visit(at, nodes, true))?;
            if scan.end.is_some() {
                nodes.extend(before);
            }
            at = scan.range.end;
        }
        Ok(())
    }

    /// Whether a step writes the node.
    pub(crate) fn writes(&self, node: &TensorNode) -> bool {
        self.writes.contains_key(node)
    }

    /// The nodes that the program mentions.
    pub(crate) fn nodes(&self) -> BTreeSet<TensorNode> {
        let read = self.steps.iter().flat_map(reads).cloned();
        self.writes.keys().cloned().chain(read).collect()
    }

    /// The names of the nodes of floats that the program reads.
    pub(crate) fn float_inputs(&self) -> Vec<String> {
        let read: BTreeSet<&TensorNode> = self.steps.iter().flat_map(|step| reads(step)).collect();
        let inputs = read.into_iter().filter(|node| !self.writes(node) && node.dtype().is_float());
        inputs.map(TensorNode::name).collect()
    }

    /// The position of the step that writes the values which the node has when the loss is complete.
    fn last_write(&self, node: &TensorNode) -> Option<usize> {
        self.writes_before(node, self.end).last().copied()
    }

    /// The step that writes the values of a parameter by which the gradient is taken, if the loss depends on
    /// older values too, other than through the values of `parameters`: each of these is a variable.
    pub(crate) fn write_between_reads(
        &self,
        loss: &TensorNode,
        parameter: &TensorNode,
        parameters: &[(TensorNode, TensorNode)],
    ) -> Option<&ProgramStep> {
        let last = self.last_write(parameter)?;
        let is_variable = |node: &TensorNode, at: usize| {
            parameters.iter().any(|(other, _)| other == node) && self.last_write(node) == Some(at)
        };
        let mut older = BTreeSet::from([parameter.clone()]);
        let walked = self.walk(self.end, &mut older, &mut |at, older, is_last| {
            let step = &self.steps[at];
            let before = mentioned_of(step, older);
            for node in targets(step) {
                let is_newest = is_last && is_variable(&node, at);
                if is_active_after(step, &node, &before) && !is_newest {
                    older.insert(node);
                } else {
                    older.remove(&node);
                }
            }
            pass_custom(step, older, &[]);
            Ok(())
        });
        (walked.is_ok() && older.contains(loss)).then(|| &self.steps[last])
    }

    fn find_active(&mut self, parameters: &[TensorNode]) -> Result<()> {
        let first = parameters.iter().filter(|node| self.in_order || self.last_write(node).is_none());
        let mut active: BTreeSet<TensorNode> = first.cloned().collect();
        let mut stale: BTreeSet<TensorNode> = BTreeSet::new();
        let mut found = vec![<[BTreeSet<TensorNode>; 2]>::default(); self.steps.len()];
        self.walk(self.steps.len(), &mut active, &mut |at, active, _| {
            let step = &self.steps[at];
            let before = mentioned_of(step, active);
            self.check_slices(step, &before, &stale)?;
            for node in targets(step) {
                let is_active = is_active_after(step, &node, &before)
                    || (!self.in_order && parameters.contains(&node) && self.last_write(&node) == Some(at));
                if is_active {
                    active.insert(node.clone())
                } else {
                    active.remove(&node)
                };
                stale.remove(&node);
                stale.extend(self.slices.get(&node).into_iter().flatten().cloned());
            }
            pass_custom(step, active, if self.in_order { &[] } else { parameters });
            found[at] = [before, mentioned_of(step, active)];
            Ok(())
        })?;
        self.active = found;
        Ok(())
    }

    /// Rejects a step that writes an active slice, or reads one that may have changed.
    fn check_slices(
        &self,
        step: &ProgramStep,
        active: &BTreeSet<TensorNode>,
        stale: &BTreeSet<TensorNode>,
    ) -> Result<()> {
        for accum in step.accums() {
            if let Some(of) = self.parents.get(&accum.lhs)
                && (active.contains(&accum.lhs) || active.contains(of))
            {
                let kind = GradientErrorKind::WritesSlice { node: accum.lhs.name(), of: of.name() };
                return Err(kind.at(accum.origin.target()));
            }
        }
        for node in reads(step) {
            if let Some(of) = self.parents.get(node)
                && stale.contains(node)
                && active.contains(node)
            {
                let kind = GradientErrorKind::StaleSlice { node: node.name(), of: of.name() };
                return Err(kind.of(step.origin()));
            }
        }
        Ok(())
    }

    /// A node that holds, after the program, the value that `node` had before step `from`: the node itself,
    /// or a copy.
    pub(crate) fn value_before(&mut self, node: &TensorNode, from: usize) -> Result<TensorNode> {
        if self.in_order {
            return Ok(node.clone());
        }
        let changes = self.sources(node).into_iter().filter_map(|source| self.next_change(&source, from));
        let Some(at) = changes.min() else { return Ok(node.clone()) };
        let at = self.scan_at(at).map_or(at, |scan| scan.range.start);
        if let Some(copy) = self.saved.get(&(node.clone(), at)) {
            return Ok(copy.clone());
        }
        let dims = node.dims_without_padding()?;
        let name = format!("{}_before", plain_name(node));
        let name = self.names.unused(|number| numbered(&name, number));
        let copy = TensorNode::builder(name)
            .dims(dims)
            .run_sizes(node.run_sizes().into())
            .dtype(node.dtype())
            .build()?;
        let steps = self.copy_steps(node, &copy, at)?;
        self.inserted.entry(at).or_default().extend(steps);
        self.saved.insert((node.clone(), at), copy.clone());
        Ok(copy)
    }

    /// Whether a write of `target` may change the value of `node`.
    pub(crate) fn is_changed_by(&self, node: &TensorNode, target: &TensorNode) -> bool {
        self.sources(node).contains(target)
    }

    /// The positions of the steps before step `from` that write the node.
    pub(crate) fn writes_before(&self, node: &TensorNode, from: usize) -> &[usize] {
        let writes = self.writes.get(node).map_or(&[][..], Vec::as_slice);
        &writes[..writes.partition_point(|&at| at < from)]
    }

    /// The position of the first step from `from` on that writes the node. A node that the backward pass
    /// writes counts as written behind the program.
    pub(crate) fn next_change(&self, node: &TensorNode, from: usize) -> Option<usize> {
        let writes = self.writes.get(node).map_or(&[][..], Vec::as_slice);
        let next = writes.get(self.writes_before(node, from).len()).copied();
        next.or_else(|| self.overwritten.contains(node).then_some(self.steps.len()))
    }

    /// The nodes whose change may change the value of `node`: the node itself, and the nodes from which it is
    /// computed if it is virtual or a slice.
    pub(crate) fn sources(&self, node: &TensorNode) -> BTreeSet<TensorNode> {
        let mut found = BTreeSet::new();
        let mut open = vec![node.clone()];
        while let Some(node) = open.pop() {
            if !found.insert(node.clone()) {
                continue;
            }
            open.extend(self.parents.get(&node).cloned());
            open.extend(node.view().map(|view| view.parent));
            if node.mode().known_virtual() {
                let writes = self.writes.get(&node).into_iter().flatten();
                open.extend(writes.flat_map(|&at| reads(&self.steps[at])).cloned());
            }
        }
        found
    }

    /// The node that a step computes elementwise from the nodes `from` alone, and that no other step writes.
    pub(crate) fn written_elementwise<'a>(
        &self,
        step: &'a ProgramStep,
        from: &BTreeSet<TensorNode>,
    ) -> Option<&'a TensorNode> {
        let [accum] = step.accums() else { return None };
        let mut read = accum.operands().filter_map(Operand::node).peekable();
        let is_from_these = read.peek().is_some() && read.all(|node| from.contains(node));
        let is_once = self.writes.get(&accum.lhs).is_some_and(|writes| writes.len() == 1);
        let is_all = accum.op == AccumOp::Assign && accum.projections.is_surjective();
        (is_from_these && is_once && is_all).then_some(&accum.lhs)
    }

    /// Steps that copy a node before step `at`. Of a virtual node, only elements that steps have written can
    /// be read.
    fn copy_steps(&self, node: &TensorNode, copy: &TensorNode, at: usize) -> Result<Vec<ProgramStep>> {
        let written = self.writes.get(node).into_iter().flatten().take_while(|&&write| write < at);
        let accums: Vec<&Accum> = written
            .flat_map(|&write| self.steps[write].accums())
            .filter(|accum| accum.lhs == *node)
            .collect();
        let all: Vec<_> = accums.iter().map(|accum| &accum.projections).collect();
        let is_whole = !node.mode().known_virtual() || all.is_empty() || are_surjective(&all);
        let dims = node.dims_without_padding()?;
        // A virtual node reads the margins that its first reader needs, so the copy has the same needs.
        let (op, init_neutral) = match self.readers.get(node).map(|op| op.neutral(DType::F64).as_f64()) {
            Some(0.0) => (AccumOp::Add, true),
            Some(1.0) => (AccumOp::Mul, true),
            Some(f64::INFINITY) => (AccumOp::Min, true),
            Some(f64::NEG_INFINITY) => (AccumOp::Max, true),
            _ => (AccumOp::Assign, false),
        };
        let copied = |points: &Accum, (op, init_neutral)| {
            let target = Target::new(copy, init_neutral, op, Access::at_target(copy, points));
            let operands = [Access::at_target(node, points)];
            let accum = derived(
                points,
                |position| Access::of_operand(points, position),
                target,
                Operation::Copy,
                &operands,
            )?;
            Ok(ProgramStep::Accum(Box::new(accum)))
        };
        let origin = self.steps.get(at).map_or(Origin::unknown(), ProgramStep::origin);
        if is_whole {
            return Ok(vec![copied(&each_element(copy, &dims, origin), (op, init_neutral))?]);
        }
        let zero = filled(copy, 0.0, origin);
        let parts = accums.into_iter().map(|accum| copied(accum, (AccumOp::Assign, false)));
        std::iter::once(Ok(zero)).chain(parts).collect()
    }

    /// Inserts a step before the scan.
    pub(crate) fn insert_before_scan(&mut self, scan: &ScanRange, step: ProgramStep) {
        self.inserted.entry(scan.range.start).or_default().push(step);
    }

    /// The scans of the program, the first one first.
    pub(crate) fn scans(&self) -> &[Arc<ScanRange>] {
        &self.scans
    }

    /// Inserts a step before the step at a position of a scan, or behind its last one.
    pub(crate) fn insert_in_scan(&mut self, scan: &ScanRange, at: usize, step: ProgramStep) {
        self.inserted_in_scans.entry((scan.range.start, at)).or_default().push(step);
    }

    /// The steps of the program with the copies among them, and the names of all nodes.
    pub(crate) fn with_copies(mut self, steps: Vec<ProgramStep>) -> (Vec<ProgramStep>, NameSupply) {
        if self.inserted.is_empty() && self.inserted_in_scans.is_empty() && self.divided.is_empty() {
            return (steps, self.names);
        }
        let names = std::mem::take(&mut self.names);
        let inserted = std::mem::take(&mut self.inserted);
        self.inserted = inserted.into_iter().map(|(at, steps)| (self.start + at, steps)).collect();
        let mut all = self.insert(steps, None, &mut 0);
        all.extend(self.inserted.into_values().flatten());
        (all, names)
    }

    /// Inserts steps before the steps at some positions, which `at` counts. `scan` is the first step of the
    /// scan around the steps.
    fn insert(&mut self, steps: Vec<ProgramStep>, scan: Option<usize>, at: &mut usize) -> Vec<ProgramStep> {
        let mut all = Vec::new();
        for step in steps {
            match step {
                ProgramStep::Block { name, steps } => {
                    all.push(ProgramStep::Block { name, steps: self.insert(steps, scan, at) });
                }
                ProgramStep::Scan { symbol, steps, end } => {
                    all.extend(self.inserted_at(None, *at));
                    let first = *at;
                    let mut steps = self.insert(steps, Some(first), at);
                    steps.extend(self.inserted_at(Some(first), *at));
                    all.push(match self.divided.remove(&first) {
                        Some((segments, start)) => {
                            let outer = end.clone().filter(|end| end.is_final);
                            segments.loops((start, outer), vec![(symbol, steps, end)])
                        }
                        None => ProgramStep::Scan { symbol, steps, end },
                    });
                }
                step => {
                    all.extend(self.inserted_at(scan, *at));
                    all.push(step);
                    *at += 1;
                }
            }
        }
        all
    }

    /// Divides a scan into segments, each with some steps before it. Returns the steps of an iteration, the
    /// inserted ones among them, which are no longer inserted.
    pub(crate) fn divide(
        &mut self,
        scan: &ScanRange,
        segments: &Segments,
        start: Vec<ProgramStep>,
    ) -> Vec<ProgramStep> {
        let first = scan.range.start;
        let stored = scan.written.iter().filter(|node| !node.mode().known_virtual());
        stored.for_each(|node| self.start_from_zero(node));
        self.divided.insert(first, (segments.clone(), start));
        let steps = self.steps[scan.range.clone()].to_vec();
        let mut at = first;
        let mut all = self.insert(steps, Some(first), &mut at);
        all.extend(self.inserted_at(Some(first), at));
        all
    }

    /// Fills a node before the first step that writes it if steps write it part by part. They write all
    /// parts, but lowering recognizes that for one loop over the steps, and not for two.
    fn start_from_zero(&mut self, node: &TensorNode) {
        let Some(&first) = self.writes.get(node).and_then(|writes| writes.first()) else { return };
        let is_read = self.steps[..first].iter().any(|step| reads(step).contains(&node));
        let is_given = MemoryMode::Materialized.outcomes().contains(node.mode().outcomes());
        let step = &self.steps[first];
        let stores = |accum: &Accum| accum.op == AccumOp::Assign || accum.lhs != *node;
        if is_read || is_given || ends_older_values(step, node) || !step.accums().iter().all(stores) {
            return;
        }
        let fill = filled(node, 0.0, step.origin());
        let at = self.scan_at(first).map_or(first, |scan| scan.range.start);
        self.inserted.entry(at).or_default().insert(0, fill);
    }

    /// Whether a scan over this letter has been divided.
    pub(crate) fn divides(&self, symbol: SymbolId) -> bool {
        self.scans.iter().any(|scan| scan.symbol == symbol && self.divided.contains_key(&scan.range.start))
    }

    fn inserted_at(&mut self, scan: Option<usize>, at: usize) -> Vec<ProgramStep> {
        let found = match scan {
            Some(first) => self.inserted_in_scans.remove(&(first, at)),
            None => self.inserted.remove(&at),
        };
        found.unwrap_or_default()
    }
}

/// The position behind the last step that writes the loss; behind the last step if the loss is computed where
/// it is read.
fn end_of(loss: &TensorNode, steps: &[ProgramStep]) -> usize {
    let is_elsewhere = loss.mode().known_virtual() || loss.view().is_some();
    let last = steps.iter().rposition(|step| match step {
        ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } => false,
        step => targets(step).contains(loss),
    });
    last.filter(|_| !is_elsewhere).map_or(steps.len(), |last| last + 1)
}

/// A step that fills a node with a number.
pub(crate) fn filled(node: &TensorNode, value: f64, origin: &Origin) -> ProgramStep {
    ProgramStep::Fetch { node: node.clone(), op: FetchOp::Constant(value), origin: origin.clone() }
}

/// The rule for the operand at that position.
pub(crate) fn derivative(rhs: &Rhs, operand: usize) -> Derivative {
    match rhs {
        Rhs::Copy(_) => Formula::Adjoint.into(),
        Rhs::Unary(op, _) => rules::unary(*op),
        Rhs::Binary(op, _) => rules::binary(*op, operand),
        Rhs::Ternary(op, _) => rules::ternary(*op, operand),
    }
}

/// The formula of the adjoint of the operand at that position; `None` if it is 0.
pub(crate) fn formula(accum: &Accum, operand: usize) -> Option<Formula> {
    let is_smooth = !matches!(accum.op, AccumOp::Or | AccumOp::And)
        && accum.lhs.dtype().is_float()
        && accum.rhs.dtype().is_float()
        && accum.rhs.operation_dtype().is_float();
    match derivative(&accum.rhs, operand) {
        Derivative::Formula(formula) if is_smooth => Some(formula),
        _ => None,
    }
}

/// Whether the values that a step gives a node depend on the `before` nodes by operations with a derivative.
pub(crate) fn is_active_after(step: &ProgramStep, node: &TensorNode, before: &BTreeSet<TensorNode>) -> bool {
    if let ProgramStep::Fetch { op: FetchOp::Slice { of, .. }, .. } = step {
        return node.dtype().is_float() && before.contains(of);
    }
    let accums: Vec<&Accum> = step.accums().iter().filter(|accum| accum.lhs == *node).collect();
    let Some(first) = accums.first() else { return false };
    let all: Vec<_> = accums.iter().map(|accum| &accum.projections).collect();
    let ends_old = first.init_neutral || (first.op == AccumOp::Assign && are_surjective(&all));
    let by_operands = accums.iter().any(|accum| {
        let operands = accum.rhs.operands().iter().enumerate();
        let mut active =
            operands.filter(|(_, operand)| operand.node().is_some_and(|node| before.contains(node)));
        active.any(|(position, _)| formula(accum, position).is_some())
    });
    by_operands || (!ends_old && before.contains(node))
}

fn check_operands(accum: &Accum) -> Result<()> {
    let (operands, projections) = (accum.operands().count(), accum.projections.project_rhs().len());
    if operands == projections {
        return Ok(());
    }
    let kind = GradientErrorKind::Operands { node: accum.lhs.name(), operands, projections };
    Err(kind.of(&accum.origin))
}

/// The nodes that a step writes, each once.
pub(crate) fn targets(step: &ProgramStep) -> Vec<TensorNode> {
    let mut nodes: Vec<TensorNode> = Vec::new();
    let fetched = match step {
        ProgramStep::Fetch { node, .. } => Some(node),
        _ => None,
    };
    for node in step.accums().iter().map(|accum| &accum.lhs).chain(fetched) {
        if !nodes.contains(node) {
            nodes.push(node.clone());
        }
    }
    nodes
}

/// Changes the nodes that depend on others by operations with a derivative at a step that detaches nodes, or
/// whose outputs depend on its inputs. Outputs among the parameters stay.
fn pass_custom(step: &ProgramStep, nodes: &mut BTreeSet<TensorNode>, parameters: &[TensorNode]) {
    match step {
        ProgramStep::Detach(node) => {
            nodes.remove(node);
        }
        ProgramStep::CustomGradient(custom) => {
            let follow = custom.inputs.iter().any(|node| nodes.contains(node));
            nodes.retain(|node| parameters.contains(node) || !custom.outputs.contains(node));
            nodes.extend(custom.outputs.iter().filter(|_| follow).cloned());
        }
        _ => {}
    }
}

/// Those of the nodes that a step reads or writes.
fn mentioned_of(step: &ProgramStep, nodes: &BTreeSet<TensorNode>) -> BTreeSet<TensorNode> {
    let mentioned = reads(step).into_iter().cloned().chain(targets(step));
    mentioned.filter(|node| nodes.contains(node)).collect()
}

/// The nodes that a step reads.
pub(crate) fn reads(step: &ProgramStep) -> Vec<&TensorNode> {
    let sliced = match step {
        ProgramStep::Fetch { op: FetchOp::Slice { of, .. }, .. } => Some(of),
        ProgramStep::Fetch { op: FetchOp::Order { of, .. }, .. } => Some(of),
        ProgramStep::Fetch { op: FetchOp::SampleValues(samples), .. } => Some(&samples.of),
        _ => None,
    };
    let custom = match step {
        ProgramStep::CustomGradient(custom) => custom.read_nodes(),
        _ => Vec::new(),
    };
    let operands = step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node);
    operands.chain(sliced).chain(custom).collect()
}

/// The names of the nodes of steps, and of parameters and their gradients.
pub(crate) fn names_of(steps: &[ProgramStep], parameters: &[(TensorNode, TensorNode)]) -> NameSupply {
    let mut names = NameSupply::default();
    for step in steps {
        names.extend(&targets(step));
        names.extend(reads(step));
        if let ProgramStep::Gradient { parameters, .. } = step {
            names.extend(parameters.iter().map(|(_, gradient)| gradient));
        }
    }
    names.extend(parameters.iter().flat_map(|(parameter, gradient)| [parameter, gradient]));
    names
}
