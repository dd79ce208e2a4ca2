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
use assignments::{Accum, AccumOp, Assignments, FetchOp, KeyPart, Operand, ProgramStep, Random};
use lowered_ir::ir::{Affine, SymbolId, Var};
use tnode::TensorNode;

use crate::forward_program::{filled, reads, targets};

/// The steps of a program that are no blocks and no scans, in order, and the scans around them.
#[derive(Default)]
pub(crate) struct FlatProgram {
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
                ProgramStep::Scan { symbol, steps } => {
                    let start = self.steps.len();
                    self.enter(steps, symbols);
                    if self.steps.len() > start {
                        let scan = ScanRange::new(*symbol, start, &self.steps[start..], symbols);
                        self.scans.push(Arc::new(scan));
                    }
                }
                step => self.steps.push(step.clone()),
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
pub(crate) struct ScanRange {
    /// The letter.
    pub(crate) symbol: SymbolId,
    /// The number of iterations.
    pub(crate) extent: i64,
    pub(crate) range: Range<usize>,
    /// The nodes that the steps write.
    pub(crate) written: BTreeSet<TensorNode>,
    /// Those of them in which no iteration changes an element after a step has read or stored it.
    stable: BTreeSet<TensorNode>,
}

impl ScanRange {
    fn new(symbol: SymbolId, start: usize, steps: &[ProgramStep], symbols: &[StaticSymbol]) -> ScanRange {
        let written: BTreeSet<TensorNode> = steps.iter().flat_map(targets).collect();
        let accesses = Accesses { symbol, steps, symbols };
        let stable = written.iter().filter(|node| accesses.are_stable(node)).cloned().collect();
        let extent = symbols.get(symbol.index()).and_then(|symbol| symbol.range).unwrap_or(0);
        ScanRange { symbol, extent, range: start..start + steps.len(), written, stable }
    }

    /// Whether the values that steps read in a node are still there after the scan.
    pub(crate) fn keeps(&self, node: &TensorNode) -> bool {
        self.stable.contains(node)
    }

    /// Steps for the value of the letter as they are for the same iteration of a scan that goes backwards.
    /// No step starts a whole node at an index with the letter.
    pub(crate) fn reversed(&self, steps: Vec<ProgramStep>) -> Vec<ProgramStep> {
        let last = Affine::constant(self.extent - 1);
        let letter = last.plus(&Affine::term(Var::Symbol(self.symbol), -1));
        let mut all = Vec::new();
        for mut step in steps {
            for accum in accums_mut(&mut step) {
                let mentions = |index: &AxisIndex| index.affine().mentions(self.symbol);
                if accum.init_neutral && accum.projections.project_lhs().iter().any(mentions) {
                    accum.init_neutral = false;
                    let neutral = accum.op.neutral(accum.lhs.dtype()).as_f64();
                    all.push(filled(&accum.lhs, neutral, &accum.origin));
                }
                accum.projections.map_indices(|index| index.substitute(self.symbol, &letter));
            }
            all.push(step);
        }
        all
    }
}

fn accums_mut(step: &mut ProgramStep) -> &mut [Accum] {
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
        let range = |id: SymbolId| self.symbols.get(id.index()).and_then(StaticSymbol::interval);
        access.accum.projections.index_bounds(&index, &range)
    }
}

/// Whether the derivative of a scan can be a scan, and needs no copies of the steps.
pub(crate) fn has_backward_scan(program: &Assignments, symbol: SymbolId, steps: &[ProgramStep]) -> bool {
    let steps: Vec<&ProgramStep> = assignments::all_steps(steps).collect();
    let written: BTreeSet<TensorNode> = steps.iter().flat_map(|step| targets(step)).collect();
    let is_drawn = |random: &Random| random.key.contains(&KeyPart::Symbol(symbol));
    let is_simple = |step: &&ProgramStep| match step {
        ProgramStep::Scan { .. } | ProgramStep::Gradient { .. } => false,
        ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } => false,
        ProgramStep::Fetch { node, op, .. } => match op {
            FetchOp::EmbedSymbol(id) => *id != symbol || !node.mode().known_virtual(),
            FetchOp::Random(random) => !is_drawn(random) || !node.mode().known_virtual(),
            _ => true,
        },
        step => step.accums().iter().flat_map(Accum::operands).all(|operand| match operand {
            Operand::Random { random, .. } => !is_drawn(random),
            _ => true,
        }),
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
