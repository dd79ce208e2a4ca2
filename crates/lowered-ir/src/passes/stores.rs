//! The stores to each node and their costs: the work of repeating a computation.

use std::collections::BTreeSet;

use crate::ir::{BinaryOp, Block, Expr, LoopId, NodeRef, Stmt, walk};

use super::cost::cost;

/// The cost class of the computation of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComputationCost {
    /// One store of a value that costs about one memory read.
    Simple,
    /// Stores without loops of their own.
    Elementwise,
    /// Anything with a loop, or an accumulation.
    Reduction,
}

/// The work of an element together with the inlined nodes that it is computed from, each counted once.
#[derive(Default)]
pub(super) struct ElementComputation {
    /// The cost of all values.
    pub(super) cost: u64,
    /// The nodes that are read from memory.
    pub(super) sources: BTreeSet<NodeRef>,
    /// There are sums and products, so that a target may contract them to fma.
    pub(super) may_contract: bool,
}

/// The most that a value may cost to be repeated rather than read.
const SIMPLE_COST: u64 = 4;

/// The stores of a body by node.
pub(super) struct NodeStores<'a> {
    of: Vec<Vec<NodeStore<'a>>>,
    /// The nodes that are compared for equality with values other than constants.
    compared: BTreeSet<NodeRef>,
}

/// A store to a node with the cost of its value.
struct NodeStore<'a> {
    /// Whether it stores to one element several times, or depends on earlier contents.
    reduces: bool,
    value: &'a Expr,
    cost: u64,
}

impl<'a> NodeStores<'a> {
    /// The stores of a body, in a routine with `nodes` nodes.
    pub(super) fn of(body: &'a Block, nodes: usize) -> NodeStores<'a> {
        let compared = walk::values(body).flat_map(walk::parts).flat_map(compared_nodes).collect();
        let mut stores = NodeStores { of: (0..nodes).map(|_| Vec::new()).collect(), compared };
        stores.block(body, &mut Vec::new());
        stores
    }

    /// Whether the node is compared for equality with values other than constants, as each value is with the
    /// greatest one in the gradient of a maximum.
    pub(super) fn is_compared(&self, node: NodeRef) -> bool {
        self.compared.contains(&node)
    }

    /// Whether the node is a copy of elements of another one of its type.
    pub(super) fn is_copy(&self, node: NodeRef) -> bool {
        let is_read = |store: &NodeStore<'_>| !store.reduces && matches!(store.value, Expr::Get { .. });
        matches!(self.of[node.index()].as_slice(), [store] if is_read(store))
    }

    /// The work of an element of the node, with the computations of the nodes that satisfy `inlined` in place
    /// of their reads.
    pub(super) fn element(&self, node: NodeRef, inlined: &impl Fn(NodeRef) -> bool) -> ElementComputation {
        let mut element = ElementComputation::default();
        let (mut seen, mut open) = (BTreeSet::from([node]), vec![node]);
        let (mut adds, mut multiplies) = (false, false);
        while let Some(node) = open.pop() {
            for store in &self.of[node.index()] {
                element.cost = element.cost.saturating_add(store.cost);
                for part in walk::parts(store.value) {
                    adds |= matches!(part, Expr::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. });
                    multiplies |= matches!(part, Expr::Binary { op: BinaryOp::Mul, .. });
                    let Some(read) = read_node(part) else { continue };
                    match inlined(read) {
                        true if seen.insert(read) => open.push(read),
                        true => {}
                        false => drop(element.sources.insert(read)),
                    }
                }
            }
        }
        element.may_contract = adds && multiplies;
        element
    }

    fn block(&mut self, block: &'a [Stmt], loops: &mut Vec<LoopId>) {
        for stmt in block {
            match stmt {
                Stmt::For { var, body, .. } => {
                    loops.push(*var);
                    self.block(body, loops);
                    loops.pop();
                }
                Stmt::Set { node, index, value } => {
                    let repeats = loops.iter().any(|&v| !index.iter().any(|i| i.mentions(v)));
                    let reduces = repeats || carries(value, *node);
                    self.of[node.index()].push(NodeStore { reduces, value, cost: cost(value) });
                }
                Stmt::SetDynamic { node, value, .. } => {
                    self.of[node.index()].push(NodeStore { reduces: true, value, cost: cost(value) });
                }
                Stmt::SetLocal { .. }
                | Stmt::Zero { .. }
                | Stmt::Declare { .. }
                | Stmt::Comment(_)
                | Stmt::Log { .. } => {}
            }
        }
    }

    /// The cost class of an element of the node, with the computations of the nodes that satisfy `inlined` in
    /// place of their reads.
    pub(super) fn computation(&self, node: NodeRef, inlined: &impl Fn(NodeRef) -> bool) -> ComputationCost {
        let found = &self.of[node.index()];
        if found.iter().any(|s| s.reduces) {
            return ComputationCost::Reduction;
        }
        let mut budget = SIMPLE_COST;
        match found.as_slice() {
            [] => ComputationCost::Simple,
            [one] if self.is_simple(one, inlined, &mut budget) => ComputationCost::Simple,
            _ => ComputationCost::Elementwise,
        }
    }

    /// Whether the value, with inlined nodes in place of their reads, has at most one read and costs at most
    /// `budget`. Subtracts the cost from `budget`.
    fn is_simple(&self, store: &NodeStore<'_>, inlined: &impl Fn(NodeRef) -> bool, budget: &mut u64) -> bool {
        let fits = !store.reduces && store.cost <= *budget;
        *budget = budget.saturating_sub(store.cost);
        let mut read = Vec::new();
        let mut merged = 0;
        walk::parts(store.value).for_each(|part| match part {
            Expr::GetMerge { .. } => merged += 1,
            part => read.extend(read_node(part)),
        });
        // Every node that is read costs at least 1, so the recursion is at most as deep as the budget is
        // large.
        fits && read.len() + merged <= 1
            && read
                .into_iter()
                .filter(|&node| inlined(node))
                .all(|node| self.of[node.index()].iter().all(|inner| self.is_simple(inner, inlined, budget)))
    }
}

/// The node whose memory a part of an expression reads.
fn read_node(part: &Expr) -> Option<NodeRef> {
    match part {
        Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => Some(*node),
        _ => None,
    }
}

/// The nodes that both sides of a test for equality read; none if a side is constant.
fn compared_nodes(part: &Expr) -> Vec<NodeRef> {
    match part {
        Expr::Binary { op: BinaryOp::Eq | BinaryOp::Ne, a, b }
            if ![a, b].iter().any(|side| matches!(***side, Expr::Const(_))) =>
        {
            walk::parts(a).chain(walk::parts(b)).filter_map(read_node).collect()
        }
        _ => Vec::new(),
    }
}

fn carries(value: &Expr, own: NodeRef) -> bool {
    let is_own = |node: &NodeRef| *node == own;
    walk::parts(value).any(|part| match part {
        Expr::Get { node, .. } => is_own(node),
        part => matches!(part, Expr::GetLocal { .. }),
    })
}
