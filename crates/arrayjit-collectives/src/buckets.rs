//! Splits the program of a gradient into parts, so that finished gradients are summed over the ranks while
//! later ones are computed.
//!
//! A backward pass finishes the gradients one after the other, those of the last layers first. The
//! program is split behind the step that finishes the last gradient of a bucket: the steps up to there
//! are one routine, and their gradients are exchanged while the next routine runs. Buckets are counted in
//! bytes: a small first one, so that exchanges begin early, and larger ones after it, because an exchange
//! of many bytes costs less per byte.
//!
//! Source: Li, Zhao, Varma et al., PyTorch distributed: Experiences on accelerating data parallel training,
//! 2020.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use arrayjit::{
    Assignments, TensorNode,
    assign::{FetchOp, ProgramStep},
    autodiff,
};

use crate::error::{CollectiveError, Result};

/// The bytes of gradients after which a bucket is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSizes {
    /// Of the first bucket.
    pub first: usize,
    /// Of each further bucket.
    pub others: usize,
}

/// 1 MiB, then 25 MiB.
impl Default for BucketSizes {
    fn default() -> BucketSizes {
        BucketSizes { first: 1 << 20, others: 25 << 20 }
    }
}

/// A part of the program of a gradient, and the nodes that it finishes.
#[derive(Clone, Debug)]
pub struct GradientBucket {
    /// The steps of the part. It keeps the nodes that later parts or sums use.
    pub program: Assignments,
    /// The nodes that are summed over the ranks after it.
    pub summed: Vec<TensorNode>,
}

/// Splits a program into parts that each finish a bucket of the nodes `summed`: gradients, and whatever
/// else is summed. All parts together, in order, compute the values of the program. Each is compiled on
/// its own.
///
/// Values that a later part uses are stored, where one routine might have computed them in place of their
/// use; values within statements are computed again. Buckets are joined where that is not possible. Ranks
/// that split the same program get the same buckets.
///
/// ```
/// use arrayjit::{Program, TensorNode};
/// use arrayjit_collectives::{BucketSizes, split_gradient};
///
/// let program = Program::parse("
///     input x f32[4]
///     param a f32[4]
///     param b f32[4]
///     hidden[i] := a[i] * x[i]
///     loss :+= b[i] * hidden[i]
///     grad loss by a, b
///     keep a.grad, b.grad").and_then(|program| program.assignments(&[]))?;
/// let gradients = [program.text_nodes.find("a.grad")?.clone(), program.text_nodes.find("b.grad")?.clone()];
/// let buckets = split_gradient(&program, &gradients, BucketSizes { first: 16, others: 16 })?;
/// let finished: Vec<_> = buckets.iter().map(|bucket| bucket.summed[0].name()).collect();
/// assert_eq!(finished, ["b.grad", "a.grad"]); // the backward pass comes to `b` first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A node that no step writes; a gradient of the program that has none.
pub fn split_gradient(
    program: &Assignments,
    summed: &[TensorNode],
    sizes: BucketSizes,
) -> Result<Vec<GradientBucket>> {
    let mut program = program.clone();
    autodiff::expand(&mut program).map_err(|error| CollectiveError::Gradient(Arc::new(error)))?;
    let steps = StepList::new(&program);
    let mut buckets = full_buckets(&steps.finished(summed)?, sizes);
    let parts = steps.parts(&mut buckets);
    let uses = steps.uses(&parts);
    let name = program.routine_name();
    let bucket = |(at, (part, bucket)): (usize, (&BucketSteps, Bucket))| {
        let name = if parts.len() == 1 { name.clone() } else { format!("{name}_{at}") };
        let mut program = steps.program(&program, at, part, &uses).named(name);
        program.kept.extend(bucket.nodes.iter().cloned());
        GradientBucket { program, summed: bucket.nodes }
    };
    Ok(parts.iter().zip(buckets).enumerate().map(bucket).collect())
}

/// Nodes that are summed together.
struct Bucket {
    nodes: Vec<TensorNode>,
    bytes: usize,
    /// The position of the step that finishes the last node.
    last: usize,
}

/// Fills buckets with nodes in the order in which they are finished; each node has the position of its step.
fn full_buckets(finished: &[(usize, TensorNode)], sizes: BucketSizes) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for (step, node) in finished {
        let limit = if buckets.len() == 1 { sizes.first } else { sizes.others };
        let has_room = |bucket: &&mut Bucket| bucket.last == *step || bucket.bytes < limit;
        let bytes = node.dims().map_or(0, |dims| dims.iter().product::<usize>()) * node.dtype().size_bytes();
        match buckets.last_mut().filter(has_room) {
            Some(bucket) => {
                bucket.nodes.push(node.clone());
                bucket.bytes += bytes;
                bucket.last = *step;
            }
            None => buckets.push(Bucket { nodes: vec![node.clone()], bytes, last: *step }),
        }
    }
    buckets
}

/// The steps of each bucket; those behind the last gradient belong to the last one.
fn ranges(buckets: &[Bucket], steps: usize) -> Vec<Range<usize>> {
    let ends = buckets.iter().map(|bucket| bucket.last + 1);
    let mut ends: Vec<usize> = ends.collect();
    if let Some(last) = ends.last_mut() {
        *last = steps;
    }
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect()
}

/// The steps of a bucket.
struct BucketSteps {
    range: Range<usize>,
    /// Steps of earlier parts that this one repeats, because their nodes have no memory.
    repeated: Vec<usize>,
}

/// The steps of a program without blocks, each with the nodes that it uses and writes.
struct StepList<'p> {
    all: Vec<&'p ProgramStep>,
    used: Vec<Vec<TensorNode>>,
    written: Vec<Vec<TensorNode>>,
    /// The steps that write each node, in order.
    writes: BTreeMap<TensorNode, Vec<usize>>,
}

impl<'p> StepList<'p> {
    fn new(program: &'p Assignments) -> StepList<'p> {
        let mut all = Vec::new();
        flatten(&program.steps, &mut all);
        let alone =
            |step: &&ProgramStep| Assignments { steps: vec![(*step).clone()], ..Assignments::default() };
        let used = all.iter().map(|step| alone(step).nodes()).collect();
        let written: Vec<Vec<TensorNode>> = all.iter().map(|step| alone(step).written_nodes()).collect();
        let mut writes: BTreeMap<TensorNode, Vec<usize>> = BTreeMap::new();
        for (at, nodes) in written.iter().enumerate() {
            nodes.iter().for_each(|node| writes.entry(node.clone()).or_default().push(at));
        }
        StepList { all, used, written, writes }
    }

    /// The steps that write a node before a step.
    fn writes_before(&self, node: &TensorNode, end: usize) -> &[usize] {
        let writes = self.writes.get(node).map_or(&[][..], Vec::as_slice);
        &writes[..writes.partition_point(|&at| at < end)]
    }

    /// The nodes with the positions of the steps that write them last, in the order of these.
    fn finished(&self, nodes: &[TensorNode]) -> Result<Vec<(usize, TensorNode)>> {
        let last = |node: &TensorNode| {
            let last = self.writes_before(node, self.all.len()).last();
            let error = || CollectiveError::NotWritten { node: node.name() };
            Ok((*last.ok_or_else(error)?, node.clone()))
        };
        let mut finished = nodes.iter().map(last).collect::<Result<Vec<_>>>()?;
        finished.sort_by_key(|(step, _)| *step);
        Ok(finished)
    }

    /// The parts that finish buckets. Buckets between which the program cannot be split are joined.
    fn parts(&self, buckets: &mut Vec<Bucket>) -> Vec<BucketSteps> {
        loop {
            let ranges = ranges(buckets, self.all.len());
            let part = |(at, range): (usize, &Range<usize>)| {
                let repeated = self.repeated(range).ok_or(at)?;
                Ok(BucketSteps { range: range.clone(), repeated })
            };
            let at = match ranges.iter().enumerate().map(part).collect() {
                Ok(parts) => return parts,
                Err(at) => at,
            };
            let joined = buckets.remove(at);
            let into = &mut buckets[at - 1]; // the first part repeats nothing
            into.nodes.extend(joined.nodes);
            into.last = joined.last;
        }
    }

    /// The earlier steps that a part repeats: those that write its numbers and its nodes that have no memory.
    /// None if such a step reads a node that is overwritten before the part.
    fn repeated(&self, range: &Range<usize>) -> Option<Vec<usize>> {
        let mut repeated = BTreeSet::new();
        let mut open: Vec<&TensorNode> = self.used[range.clone()].iter().flatten().collect();
        while let Some(node) = open.pop() {
            if !self.has_no_memory(node) {
                continue;
            }
            for &step in self.writes_before(node, range.start) {
                if !repeated.insert(step) {
                    continue;
                }
                for operand in self.used[step].iter().filter(|operand| *operand != node) {
                    let is_overwritten =
                        self.writes_before(operand, range.start).last().is_some_and(|&last| last > step);
                    if is_overwritten {
                        return None;
                    }
                    open.push(operand);
                }
            }
        }
        Some(repeated.into_iter().collect())
    }

    /// Whether parts compute a node for themselves: a value within a statement, or a number.
    fn has_no_memory(&self, node: &TensorNode) -> bool {
        let is_number = |at: &usize| {
            matches!(
                self.all[*at],
                ProgramStep::Fetch { op: FetchOp::Constant(_) | FetchOp::ConstantBits(_), .. }
            )
        };
        let writes = self.writes.get(node).map_or(&[][..], Vec::as_slice);
        node.mode().known_virtual() || matches!(writes, [at] if is_number(at))
    }

    /// The parts that use each node.
    fn uses(&self, parts: &[BucketSteps]) -> BTreeMap<TensorNode, BTreeSet<usize>> {
        let mut uses: BTreeMap<TensorNode, BTreeSet<usize>> = BTreeMap::new();
        for (at, part) in parts.iter().enumerate() {
            for step in part.repeated.iter().copied().chain(part.range.clone()) {
                for node in &self.used[step] {
                    uses.entry(node.clone()).or_default().insert(at);
                }
            }
        }
        uses
    }

    /// The program of a part, which keeps the nodes that other parts use.
    fn program(
        &self,
        program: &Assignments,
        at: usize,
        part: &BucketSteps,
        uses: &BTreeMap<TensorNode, BTreeSet<usize>>,
    ) -> Assignments {
        let is_kept = |node: &&TensorNode| {
            let is_shared = uses.get(*node).is_some_and(|parts| parts.len() > 1);
            program.kept.contains(*node) || is_shared && !self.has_no_memory(node)
        };
        let steps = part.repeated.iter().copied().chain(part.range.clone());
        Assignments {
            symbols: program.symbols.clone(),
            steps: steps.map(|step| self.all[step].clone()).collect(),
            warnings: if at == 0 { program.warnings.clone() } else { Vec::new() },
            text_nodes: program.text_nodes.clone(),
            initial: program.initial.clone().filter(|_| at == 0),
            kept: self.written[part.range.clone()].iter().flatten().filter(is_kept).cloned().collect(),
            ..Assignments::default()
        }
    }
}

fn flatten<'p>(steps: &'p [ProgramStep], all: &mut Vec<&'p ProgramStep>) {
    for step in steps {
        match step {
            ProgramStep::Block { steps, .. } => flatten(steps, all),
            other => all.push(other),
        }
    }
}
