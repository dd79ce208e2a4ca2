//! Scans as copies of their steps.

use std::collections::BTreeMap;

use tnode::{MemoryMode, TensorNode, TensorNodeError};

use crate::indexing::StaticSymbol;
use crate::{
    Accum, Assignments, EarlyEndError, FetchOp, KeepScan, KeyPart, Operand, ProgramStep, Random, all_steps,
    written,
};
use lowered_ir::ir::{Affine, SymbolId};

impl Assignments {
    /// Whether a step is a scan.
    pub fn has_scans(&self) -> bool {
        all_steps(&self.steps).any(|step| matches!(step, ProgramStep::Scan { .. }))
    }

    /// The number of steps of the program that [`unroll_scans`](Self::unroll_scans) makes; the greatest
    /// number if it is more.
    pub fn num_unrolled_steps(&self, keep: &KeepScan<'_>) -> u64 {
        count(&self.steps, &self.symbols, keep)
    }

    /// Replaces each scan by a copy of its steps for each of its values, but for the outermost scans that
    /// `keep` selects by their letters and steps. The virtual nodes of a scan are new nodes in each copy,
    /// since one statement computes the elements of a virtual node.
    ///
    /// # Errors
    /// A node that cannot be built again, or that has no values where steps behind the end of a scan write
    /// it.
    pub fn unroll_scans(&mut self, keep: &KeepScan<'_>) -> Result<(), EarlyEndError> {
        self.select_ends(keep)?;
        self.steps = unrolled(std::mem::take(&mut self.steps), &self.symbols, keep)?;
        Ok(())
    }
}

/// Selects no scan.
fn none(_: SymbolId, _: &[ProgramStep]) -> bool {
    false
}

fn extent(symbol: SymbolId, symbols: &[StaticSymbol]) -> i64 {
    symbols.get(symbol.index()).and_then(|symbol| symbol.range).unwrap_or(0)
}

fn count(steps: &[ProgramStep], symbols: &[StaticSymbol], keep: &KeepScan<'_>) -> u64 {
    let each = |step: &ProgramStep| match step {
        ProgramStep::Scan { symbol, steps, .. } => {
            let copies = if keep(*symbol, steps) { 1 } else { extent(*symbol, symbols).unsigned_abs() };
            count(steps, symbols, &none).saturating_mul(copies)
        }
        step => count(step.inner(), symbols, keep).saturating_add(1),
    };
    steps.iter().map(each).fold(0, u64::saturating_add)
}

fn unrolled(
    steps: Vec<ProgramStep>,
    symbols: &[StaticSymbol],
    keep: &KeepScan<'_>,
) -> Result<Vec<ProgramStep>, TensorNodeError> {
    let mut all = Vec::new();
    for step in steps {
        match step {
            ProgramStep::Scan { symbol, steps, end } => {
                let is_kept = keep(symbol, &steps);
                let body = unrolled(steps, symbols, &none)?;
                if is_kept {
                    all.push(ProgramStep::Scan { symbol, steps: body, end });
                    continue;
                }
                for value in 0..extent(symbol, symbols) {
                    all.extend(StepCopy::new(&body, symbol, value)?.steps(&body));
                }
            }
            ProgramStep::Block { name, steps } => {
                all.push(ProgramStep::Block { name, steps: unrolled(steps, symbols, keep)? });
            }
            step => all.push(step),
        }
    }
    Ok(all)
}

/// The copy of a scan's steps for one value of its letter.
struct StepCopy {
    symbol: SymbolId,
    value: i64,
    /// The new nodes in place of virtual ones.
    nodes: BTreeMap<TensorNode, TensorNode>,
}

impl StepCopy {
    fn new(body: &[ProgramStep], symbol: SymbolId, value: i64) -> Result<StepCopy, TensorNodeError> {
        let mut nodes = BTreeMap::new();
        for node in all_steps(body).flat_map(written).filter(|node| node.mode().known_virtual()) {
            if value > 0 && !nodes.contains_key(node) {
                nodes.insert(node.clone(), again(node)?);
            }
        }
        Ok(StepCopy { symbol, value, nodes })
    }

    fn steps(&self, steps: &[ProgramStep]) -> Vec<ProgramStep> {
        steps.iter().map(|step| self.step(step.clone())).collect()
    }

    fn step(&self, step: ProgramStep) -> ProgramStep {
        match step {
            ProgramStep::Accum(accum) => ProgramStep::Accum(Box::new(self.accum(*accum))),
            ProgramStep::Concat(parts) => {
                ProgramStep::Concat(parts.into_iter().map(|accum| self.accum(accum)).collect())
            }
            ProgramStep::Fetch { node, op, origin } => {
                let op = match op {
                    FetchOp::EmbedSymbol(id) if id == self.symbol => FetchOp::Constant(self.value as f64),
                    FetchOp::Random(random) => FetchOp::Random(self.random(random)),
                    op => op,
                };
                ProgramStep::Fetch { node: self.node(node), op, origin: origin.copied() }
            }
            ProgramStep::Detach(node) => ProgramStep::Detach(self.node(node)),
            ProgramStep::Block { name, steps } => ProgramStep::Block { name, steps: self.steps(&steps) },
            step @ (ProgramStep::Gradient { .. }
            | ProgramStep::CustomGradient(_)
            | ProgramStep::Scan { .. }
            | ProgramStep::Remark(_)) => step,
        }
    }

    fn accum(&self, mut accum: Accum) -> Accum {
        let by = Affine::constant(self.value);
        accum.projections.map_indices(|index| index.substitute(self.symbol, &by));
        accum.lhs = self.node(accum.lhs);
        accum.origin = accum.origin.copied();
        for operand in accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed) {
            match operand {
                Operand::Node(node) | Operand::Padded { node, .. } => *node = self.node(node.clone()),
                Operand::Random { random, .. } => **random = self.random((**random).clone()),
                Operand::MergeBuffer(_) | Operand::Constant(_) | Operand::Index(_) => {}
            }
        }
        accum
    }

    fn random(&self, mut random: Random) -> Random {
        for part in &mut random.key {
            if *part == KeyPart::Symbol(self.symbol) {
                *part = KeyPart::Number(self.value.unsigned_abs());
            }
        }
        random
    }

    fn node(&self, node: TensorNode) -> TensorNode {
        self.nodes.get(&node).cloned().unwrap_or(node)
    }
}

/// A virtual node like another one.
fn again(node: &TensorNode) -> Result<TensorNode, TensorNodeError> {
    let dims = node.dims_without_padding()?;
    let made = TensorNode::builder(node.label().to_vec())
        .dims(dims)
        .run_sizes(node.run_sizes().into())
        .dtype(node.dtype());
    let mode = node.mode();
    match mode.chain().last() {
        Some(decision) => made.mode_because(MemoryMode::Virtual, decision.reason.clone()).build(),
        None => made.mode(MemoryMode::Virtual).build(),
    }
}
