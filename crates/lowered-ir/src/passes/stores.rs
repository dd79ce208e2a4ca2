//! The stores to each node and their costs: the work of repeating a computation.

use crate::ir::{Block, Expr, LoopId, NodeRef, Stmt, walk};

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

/// The most that a value may cost to be repeated rather than read.
const SIMPLE_COST: u64 = 4;

/// The stores of a body by node.
pub(super) struct NodeStores<'a> {
    of: Vec<Vec<NodeStore<'a>>>,
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
        let mut stores = NodeStores { of: (0..nodes).map(|_| Vec::new()).collect() };
        stores.block(body, &mut Vec::new());
        stores
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
            Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => {
                read.push(*node);
            }
            Expr::GetMerge { .. } => merged += 1,
            _ => {}
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

fn carries(value: &Expr, own: NodeRef) -> bool {
    let is_own = |node: &NodeRef| *node == own;
    walk::parts(value).any(|part| match part {
        Expr::Get { node, .. } => is_own(node),
        part => matches!(part, Expr::GetLocal { .. }),
    })
}
