//! Decision trees as tables of nodes with one kind of comparison.
//!
//! Each node compares a feature with a threshold and has two nodes behind it: for a feature that is at most
//! the threshold, and for others, also NaN. Any comparison of a file becomes such nodes: `<` has the next
//! lesser threshold, `>` exchanges what is behind it, and `==` is two nodes. Where NaN should count as small,
//! the node reads a copy of the features that has -inf in place of NaN.

use std::collections::{HashMap, VecDeque};

use tnode::DType;

use crate::error::{OnnxError, Result};

/// A node or a leaf, by its number in its list.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Split(usize),
    Leaf(usize),
}

/// The comparison of a node of a file, whose result is true for NaN if the node says so.
#[derive(Clone)]
pub(super) enum Test {
    AtMost(f64),
    Less(f64),
    AtLeast(f64),
    Greater(f64),
    Equal(f64),
    Differs(f64),
    Among(Vec<f64>),
}

/// A node of a file.
pub(super) struct Split {
    pub(super) feature: usize,
    pub(super) test: Test,
    pub(super) takes_nan: bool,
    pub(super) when_true: Target,
    pub(super) when_false: Target,
}

/// Nodes in columns. The first ones are the leaves; a leaf is behind itself.
pub(super) struct Forest {
    /// The features, and for copies without NaN the number of features more.
    pub(super) features: Vec<i64>,
    pub(super) thresholds: Vec<f64>,
    /// For each node the one behind it for other features, and the one for lesser features.
    pub(super) behind: Vec<i64>,
    pub(super) roots: Vec<i64>,
    pub(super) leaves: usize,
    /// The most comparisons from a root to a leaf.
    pub(super) depth: usize,
    /// Whether a node reads the copy without NaN.
    pub(super) has_copies: bool,
    /// The number of features, which are compared in this type.
    width: usize,
    dtype: DType,
}

/// The limit of the number of nodes, those of sets of numbers included.
const MOST: usize = 1 << 24;

impl Forest {
    /// The trees with these roots. Features are compared in `dtype`.
    pub(super) fn of(
        splits: &[Split],
        leaves: usize,
        roots: &[Target],
        width: usize,
        dtype: DType,
    ) -> Result<Forest> {
        let mut forest = Forest {
            features: vec![0; leaves],
            thresholds: vec![0.0; leaves],
            behind: (0..leaves as i64).flat_map(|at| [at, at]).collect(),
            roots: Vec::new(),
            leaves,
            depth: 0,
            has_copies: false,
            width,
            dtype,
        };
        // The first node of each node of the file comes first, so that its number is known.
        let first = |target: Target| match target {
            Target::Leaf(leaf) => leaf as i64,
            Target::Split(split) => (leaves + split) as i64,
        };
        let count = leaves.saturating_add(splits.len());
        forest.resize(count)?;
        for (at, split) in splits.iter().enumerate() {
            if split.feature >= width {
                let problem = format!("feature {} is none of {width}", split.feature);
                return Err(OnnxError::operand(0, problem));
            }
            let ways = [split.when_true, split.when_false].map(first);
            forest.add(leaves + at, split, ways)?;
        }
        forest.roots = roots.iter().map(|&root| first(root)).collect();
        forest.depth = forest.measured()?;
        Ok(forest)
    }

    fn resize(&mut self, count: usize) -> Result<()> {
        if count > MOST {
            return Err(OnnxError::Invalid(format!("the trees have more than {MOST} nodes")));
        }
        self.features.resize(count, 0);
        self.thresholds.resize(count, 0.0);
        self.behind.resize(2 * count, 0);
        Ok(())
    }

    /// Writes the nodes of a node of the file, the first of them at `at`. Two ways are behind it: for true
    /// and for false.
    fn add(&mut self, at: usize, split: &Split, [yes, no]: [i64; 2]) -> Result<()> {
        let (feature, nan, dtype) = (split.feature, split.takes_nan, self.dtype);
        let at_most = |threshold| floor(threshold, dtype);
        match split.test {
            Test::AtMost(threshold) => self.write(at, feature, at_most(threshold), [no, yes], nan),
            Test::Less(threshold) => self.write(at, feature, lesser(threshold, dtype), [no, yes], nan),
            Test::Greater(threshold) => self.write(at, feature, at_most(threshold), [yes, no], !nan),
            Test::AtLeast(threshold) => self.write(at, feature, lesser(threshold, dtype), [yes, no], !nan),
            Test::Equal(number) => self.find(at, feature, &[number], [no, yes], nan)?,
            // NaN differs from any number.
            Test::Differs(number) => self.find(at, feature, &[number], [yes, no], false)?,
            Test::Among(ref numbers) => self.find(at, feature, numbers, [no, yes], nan)?,
        }
        Ok(())
    }

    /// Writes nodes whose second way is for the numbers, and the first one for others.
    fn find(
        &mut self,
        at: usize,
        feature: usize,
        numbers: &[f64],
        [no, yes]: [i64; 2],
        takes_nan: bool,
    ) -> Result<()> {
        // Features have no numbers that the type rounds.
        let exact = |number: &f64| floor(*number, self.dtype) == *number;
        let numbers: Vec<f64> = numbers.iter().copied().filter(exact).collect();
        let Some(last) = numbers.len().checked_sub(1) else {
            // No number is found, but NaN may be.
            self.write(at, feature, f64::NEG_INFINITY, [no, if takes_nan { yes } else { no }], takes_nan);
            return Ok(());
        };
        let mut here = at;
        for (turn, &number) in numbers.iter().enumerate() {
            // A node for greater numbers, and one behind it for lesser ones; then the next number.
            let lower = self.features.len();
            let next = if turn == last { no } else { lower as i64 + 1 };
            self.resize(lower + 1 + usize::from(turn < last))?;
            self.write(here, feature, number, [next, lower as i64], takes_nan && turn == 0);
            self.write(lower, feature, lesser(number, self.dtype), [yes, next], false);
            here = lower + 1;
        }
        Ok(())
    }

    /// Writes a node with the nodes behind it for other features and for those up to the threshold.
    fn write(&mut self, at: usize, feature: usize, threshold: f64, ways: [i64; 2], nan_is_small: bool) {
        self.has_copies |= nan_is_small;
        self.features[at] = (feature + if nan_is_small { self.width } else { 0 }) as i64;
        self.thresholds[at] = threshold;
        self.behind[2 * at..2 * at + 2].copy_from_slice(&ways);
    }

    /// The most comparisons from a root to a leaf.
    fn measured(&self) -> Result<usize> {
        let split = |node: i64| usize::try_from(node).ok().filter(|&node| node >= self.leaves);
        // How many nodes are in front of each one, of those behind the roots.
        let mut waiting: HashMap<usize, usize> = HashMap::new();
        let mut open: Vec<usize> = self.roots.iter().filter_map(|&root| split(root)).collect();
        let mut seen: Vec<bool> = vec![false; self.features.len()];
        open.iter().for_each(|&root| seen[root] = true);
        while let Some(node) = open.pop() {
            for next in self.behind[2 * node..2 * node + 2].iter().filter_map(|&next| split(next)) {
                *waiting.entry(next).or_default() += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
            }
        }
        let mut levels = vec![0; self.features.len()];
        let (mut depth, mut done) = (0, 0);
        let mut ready: Vec<usize> = (self.leaves..self.features.len())
            .filter(|node| seen[*node] && !waiting.contains_key(node))
            .collect();
        while let Some(node) = ready.pop() {
            done += 1;
            depth = depth.max(levels[node] + 1);
            for next in self.behind[2 * node..2 * node + 2].iter().filter_map(|&next| split(next)) {
                levels[next] = levels[next].max(levels[node] + 1);
                if let Some(count) = waiting.get_mut(&next) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push(next);
                    }
                }
            }
        }
        match seen.iter().filter(|&&seen| seen).count() == done {
            true => Ok(depth),
            false => Err(OnnxError::Invalid("nodes of a tree are behind themselves".into())),
        }
    }
}

/// The nodes in an order in which the two behind a node are neighbors: the next node is the first of them
/// plus the result of the comparison. A node behind several others has a copy for each; a leaf is behind
/// itself.
pub(super) struct Neighbors {
    pub(super) features: Vec<i64>,
    /// NaN for leaves, which no feature is at most.
    pub(super) thresholds: Vec<f64>,
    /// The first of the two nodes behind each one.
    pub(super) behind: Vec<i64>,
    /// The leaf that a node is.
    pub(super) leaves: Vec<Option<usize>>,
}

impl Neighbors {
    /// The nodes behind the roots, which come first.
    pub(super) fn of(forest: &Forest) -> Neighbors {
        let mut nodes = Neighbors {
            features: Vec::new(),
            thresholds: Vec::new(),
            behind: Vec::new(),
            leaves: Vec::new(),
        };
        let mut waiting: VecDeque<i64> = forest.roots.iter().copied().collect();
        // Where the nodes behind each split stand.
        let mut places: HashMap<i64, i64> = HashMap::new();
        let mut placed = waiting.len() as i64;
        while let Some(node) = waiting.pop_front() {
            let at = node as usize;
            let is_leaf = at < forest.leaves;
            let here = nodes.behind.len() as i64;
            nodes.leaves.push(is_leaf.then_some(at));
            nodes.features.push(if is_leaf { 0 } else { forest.features[at] });
            nodes.thresholds.push(if is_leaf { f64::NAN } else { forest.thresholds[at] });
            nodes.behind.push(match is_leaf {
                true => here,
                false => *places.entry(node).or_insert_with(|| {
                    waiting.extend(&forest.behind[2 * at..2 * at + 2]);
                    placed += 2;
                    placed - 2
                }),
            });
        }
        nodes
    }
}

/// The greatest number of the type that is at most this one.
fn floor(number: f64, dtype: DType) -> f64 {
    if dtype == DType::F64 {
        return number;
    }
    let near = number as f32;
    if f64::from(near) > number { f64::from(near.next_down()) } else { f64::from(near) }
}

/// The greatest number of the type that is less than this one; NaN, which no number is at most, if there is
/// none.
fn lesser(number: f64, dtype: DType) -> f64 {
    let below = floor(number, dtype);
    match dtype {
        _ if number == f64::NEG_INFINITY => f64::NAN,
        _ if below < number => below,
        DType::F64 => number.next_down(),
        _ => f64::from((number as f32).next_down()),
    }
}
