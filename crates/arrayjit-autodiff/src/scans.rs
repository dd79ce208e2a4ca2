//! Scans of the program: their steps in the list of all steps, and what they keep.
//!
//! The backward pass of a scan is a scan over the same letter, whose body differentiates the steps of one
//! iteration in reverse and replaces the letter `t` by `n - 1 - t`. A value that a step of the body reads is
//! found again by one of three ways. A node with an axis for the iterations, each element of which keeps its
//! value once it has been read, has it still. A virtual node is computed again. All other nodes are stored
//! per iteration, in an array with one more axis, before the next iteration overwrites them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use assignments::indexing::{AxisIndex, StaticSymbol};
use assignments::{Accum, AccumOp, Assignments, FetchOp, KeyPart, Operand, ProgramStep, Random, ScanEnd};
use lowered_ir::ir::{Affine, SymbolId, Var};
use tnode::TensorNode;

use crate::forward_program::{filled, reads, targets};

/// The steps of a program that are no blocks and no scans, in order, and the scans around them.
#[derive(Clone, Default)]
pub(crate) struct FlatProgram {
    /// The number of steps that are left out before the first one.
    pub(crate) start: usize,
    pub(crate) steps: Vec<ProgramStep>,
    pub(crate) scans: Vec<Arc<ScanRange>>,
}

impl FlatProgram {
    pub(crate) fn new(steps: &[ProgramStep], symbols: &[StaticSymbol]) -> FlatProgram {
        let mut program = FlatProgram::default();
        program.enter(steps, symbols);
        program
    }

    fn enter(&mut self, steps: &[ProgramStep], symbols: &[StaticSymbol]) {
        for step in steps {
            match step {
                ProgramStep::Block { steps, .. } => self.enter(steps, symbols),
                ProgramStep::Scan { symbol, steps, end } => {
                    let start = self.steps.len();
                    let (always, perhaps) = end.as_ref().map_or((&**steps, &[][..]), |end| end.split(steps));
                    self.enter(always, symbols);
                    let behind = self.steps.len();
                    self.enter(perhaps, symbols);
                    if self.steps.len() > start {
                        let end = end.clone().map(|end| (end, behind));
                        let scan = ScanRange::new((*symbol, end), start, &self.steps[start..], symbols);
                        self.scans.push(Arc::new(scan));
                    }
                }
                step => self.steps.push(step.clone()),
            }
        }
    }

    /// Divides the scans with checkpoints into segments, and enters the letters of these.
    pub(crate) fn divide(&mut self, program: &mut Assignments) {
        for scan in &mut self.scans {
            let every = program.checkpoints.get(&scan.symbol).copied();
            let steps = &self.steps[scan.range.clone()];
            if let Some(every) = every.filter(|_| scan.is_divisible(steps)) {
                let segments = Segments::new(scan, every, program);
                Arc::make_mut(scan).segments = Some(segments);
            }
        }
    }

    /// Removes the steps from a position on, which no scan contains.
    pub(crate) fn truncate(&mut self, at: usize) {
        self.steps.truncate(at);
        self.scans.retain(|scan| scan.range.end <= at);
    }
}

/// A scan whose steps have positions among those of the program.
#[derive(Clone)]
pub(crate) struct ScanRange {
    /// The letter.
    pub(crate) symbol: SymbolId,
    /// The number of iterations.
    pub(crate) extent: i64,
    pub(crate) range: Range<usize>,
    /// The condition, and the position of the first step that depends on it.
    pub(crate) end: Option<(ScanEnd, usize)>,
    /// The nodes that the steps write.
    pub(crate) written: BTreeSet<TensorNode>,
    /// The segments between checkpoints, whose steps the backward pass computes again.
    pub(crate) segments: Option<Segments>,
    /// The written nodes in which no iteration changes an element after a step has read or stored it.
    stable: BTreeSet<TensorNode>,
}

impl ScanRange {
    fn new(
        (symbol, end): (SymbolId, Option<(ScanEnd, usize)>),
        start: usize,
        steps: &[ProgramStep],
        symbols: &[StaticSymbol],
    ) -> ScanRange {
        let written: BTreeSet<TensorNode> = steps.iter().flat_map(targets).collect();
        let accesses = Accesses { symbol, steps, symbols };
        let stable = written.iter().filter(|node| accesses.are_stable(node)).cloned().collect();
        let extent = symbols.get(symbol.index()).and_then(|symbol| symbol.range).unwrap_or(0);
        let range = start..start + steps.len();
        ScanRange { symbol, extent, range, end, written, segments: None, stable }
    }

    /// Whether the values that steps read in a node are still there after the scan.
    pub(crate) fn keeps(&self, node: &TensorNode) -> bool {
        self.stable.contains(node)
    }

    /// Whether the steps of this scan can be divided into segments.
    pub(crate) fn is_divisible(&self, steps: &[ProgramStep]) -> bool {
        steps.iter().all(|step| is_affine_in(step, self.symbol))
    }

    /// The letter of the loop that stores values and of the one that reads them, and their extent.
    pub(crate) fn stored_by(&self) -> (SymbolId, i64) {
        self.segments.as_ref().map_or((self.symbol, self.extent), |of| (of.step, of.every))
    }

    /// Steps without one that starts a whole node at an index with the letter: that step would lose the
    /// elements of other iterations.
    pub(crate) fn without_restarts(&self, steps: Vec<ProgramStep>) -> Vec<ProgramStep> {
        let mut all = Vec::new();
        for mut step in steps {
            for accum in accums_mut(&mut step) {
                let mentions = |index: &AxisIndex| index.affine().mentions(self.symbol);
                if accum.init_neutral && accum.projections.project_lhs().iter().any(mentions) {
                    accum.init_neutral = false;
                    let neutral = accum.op.neutral(accum.lhs.dtype()).as_f64();
                    all.push(filled(&accum.lhs, neutral, &accum.origin));
                }
            }
            all.push(step);
        }
        all
    }
}

/// A scan in segments of equal length: one loop over the segments, and one over the steps of a segment.
#[derive(Clone)]
pub(crate) struct Segments {
    /// The letter of the loop over segments, and their number.
    pub(crate) segment: SymbolId,
    pub(crate) count: i64,
    /// The letter of the loop over the steps of a segment, and their number.
    pub(crate) step: SymbolId,
    pub(crate) every: i64,
}

impl Segments {
    fn new(scan: &ScanRange, every: i64, program: &mut Assignments) -> Segments {
        let known = program.symbols.get(scan.symbol.index()).and_then(StaticSymbol::letter);
        let letter = known.unwrap_or("t").to_owned();
        let number = program.symbols.len() + 1;
        let count = scan.extent / every;
        // No symbol of the program has such a number: each scan has one symbol.
        let segment = StaticSymbol::step(&format!("{letter}_segment"), number, count);
        let step = StaticSymbol::step(&format!("{letter}_step"), number, every);
        Segments {
            segment: program.symbols.enter(&segment),
            count,
            step: program.symbols.enter(&step),
            every,
        }
    }

    /// The letter of the undivided scan.
    pub(crate) fn letter(&self) -> Affine {
        Affine::term(Var::Symbol(self.segment), self.every).plus(&Affine::var(self.step))
    }
}

/// The value of a letter in the same iteration of a scan that goes backwards.
pub(crate) fn backwards(symbol: SymbolId, extent: i64) -> Affine {
    Affine::constant(extent - 1).plus(&Affine::term(Var::Symbol(symbol), -1))
}

/// Replaces a letter in the indices of steps, and in those of the scans among them.
pub(crate) fn substitute(steps: &mut [ProgramStep], symbol: SymbolId, by: &Affine) {
    for step in steps {
        match step {
            ProgramStep::Scan { steps, .. } | ProgramStep::Block { steps, .. } => {
                substitute(steps, symbol, by);
            }
            step => accums_mut(step)
                .iter_mut()
                .for_each(|accum| accum.projections.map_indices(|index| index.substitute(symbol, by))),
        }
    }
}

/// Whether a step mentions a letter in indices only, where another affine form can replace it.
fn is_affine_in(step: &ProgramStep, symbol: SymbolId) -> bool {
    let is_drawn = |random: &Random| random.key.contains(&KeyPart::Symbol(symbol));
    match step {
        ProgramStep::Fetch { op: FetchOp::EmbedSymbol(id), .. } => *id != symbol,
        ProgramStep::Fetch { op: FetchOp::Random(random), .. } => !is_drawn(random),
        step => step.accums().iter().flat_map(Accum::operands).all(|operand| match operand {
            Operand::Random { random, .. } => !is_drawn(random),
            _ => true,
        }),
    }
}

pub(crate) fn accums_mut(step: &mut ProgramStep) -> &mut [Accum] {
    match step {
        ProgramStep::Accum(accum) => std::slice::from_mut(accum),
        ProgramStep::Concat(parts) => parts,
        _ => &mut [],
    }
}

/// The scan whose derivative the backward pass makes, and the values of its iteration so far.
pub(crate) struct OpenScan {
    pub(crate) scan: Arc<ScanRange>,
    /// The stored values by node and by the position behind the step that wrote them.
    pub(crate) stored: BTreeMap<(TensorNode, usize), TensorNode>,
    /// The arrays that hold them, if some iterations may not run, which leave zeros.
    pub(crate) partial: Vec<TensorNode>,
}

/// The accesses of the steps of a scan to nodes.
struct Accesses<'a> {
    symbol: SymbolId,
    steps: &'a [ProgramStep],
    symbols: &'a [StaticSymbol],
}

/// The indices of an access on one axis, where the step at `from` is the first that may change the element
/// afterwards; for a write the step itself.
struct AxisAccess<'a> {
    accum: &'a Accum,
    index: &'a AxisIndex,
    from: usize,
}

impl Accesses<'_> {
    /// Whether no later step, in the same iteration or a later one, writes an element that a step reads or
    /// has stored. It is found on an axis that all steps index by the letter.
    fn are_stable(&self, node: &TensorNode) -> bool {
        let is_fetched = |step: &ProgramStep| {
            step.accums().is_empty() && (targets(step).contains(node) || reads(step).contains(&node))
        };
        let rank = node.dims_without_padding().map_or(0, |dims| dims.len());
        !self.steps.iter().any(is_fetched) && (0..rank).any(|axis| self.is_stable_on(node, axis))
    }

    fn is_stable_on(&self, node: &TensorNode, axis: usize) -> bool {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            for accum in step.accums() {
                let arrays = accum.operands().zip(accum.projections.project_rhs());
                for (_, index) in arrays.filter(|(operand, _)| operand.node() == Some(node)) {
                    reads.push(AxisAccess { accum, index: &index[axis], from: at });
                }
                if accum.lhs == *node {
                    let index = &accum.projections.project_lhs()[axis];
                    if accum.init_neutral {
                        return false;
                    }
                    if !matches!(accum.op, AccumOp::Assign | AccumOp::Add | AccumOp::Sub) {
                        reads.push(AxisAccess { accum, index, from: at });
                    }
                    reads.push(AxisAccess { accum, index, from: at + 1 });
                    writes.push(AxisAccess { accum, index, from: at });
                }
            }
        }
        writes.iter().all(|write| reads.iter().all(|read| self.is_kept(read, write)))
    }

    /// Whether `write` changes no element that `read` has read in the same iteration or an earlier one.
    fn is_kept(&self, read: &AxisAccess<'_>, write: &AxisAccess<'_>) -> bool {
        let step = write.index.affine().coefficient(self.symbol);
        let (Some((read_low, read_high)), Some((write_low, write_high))) =
            (self.bounds(read, step), self.bounds(write, step))
        else {
            return false;
        };
        // A write in a later iteration adds at least `step` to the index.
        let distance = (read_low.saturating_sub(write_high), read_high.saturating_sub(write_low));
        let distance = if step < 0 { (-distance.1, -distance.0) } else { distance };
        let is_before = write.from < read.from;
        step != 0 && distance.1 < step.abs() && (is_before || distance.1 < 0 || distance.0 > 0)
    }

    /// The bounds of an index without `step` times the letter, if it has no other symbol.
    fn bounds(&self, access: &AxisAccess<'_>, step: i64) -> Option<(i64, i64)> {
        let index = access.index.affine();
        let is_other = |&(var, _): &(Var, i64)| matches!(var, Var::Symbol(id) if id != self.symbol);
        if access.index.computed().is_some() || index.terms().iter().any(is_other) {
            return None;
        }
        let index = index.plus(&Affine::term(Var::Symbol(self.symbol), -step));
        let range = |id: SymbolId| StaticSymbol::range_in(self.symbols, id);
        access.accum.projections.index_bounds(&index, &range)
    }
}

/// Whether the derivative of a scan can be a scan, and needs no copies of the steps.
pub(crate) fn has_backward_scan(program: &Assignments, symbol: SymbolId, steps: &[ProgramStep]) -> bool {
    let steps: Vec<&ProgramStep> = assignments::all_steps(steps).collect();
    let written: BTreeSet<TensorNode> = steps.iter().flat_map(|step| targets(step)).collect();
    let is_simple = |step: &&ProgramStep| match step {
        ProgramStep::Scan { .. } | ProgramStep::Gradient { .. } => false,
        ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } => false,
        ProgramStep::Fetch { node, .. } if !node.mode().known_virtual() => true,
        step => is_affine_in(step, symbol),
    };
    // The value of a virtual node or view changes with the nodes that it is computed from.
    let is_own =
        |node: &TensorNode| node.view().is_none() && (!node.mode().known_virtual() || written.contains(node));
    let is_sliced = |step: &ProgramStep| match step {
        ProgramStep::Fetch { node, op: FetchOp::Slice { of, .. }, .. } => {
            written.contains(node) || written.contains(of)
        }
        _ => false,
    };
    steps.iter().all(is_simple)
        && steps.iter().flat_map(|step| reads(step)).chain(&written).all(is_own)
        && !assignments::all_steps(&program.steps).any(is_sliced)
}
