//! The accesses of a piece of IR, and their consequences for passes: order, fusion, complete overwrites,
//! distinct elements.
//!
//! All answers are conservative: `true` is proved, `false` means that no proof was found.

use std::collections::{BTreeMap, BTreeSet};

use codegen_core::dependence::{Touch, VariableRanges, mentions, separates_iterations, touches};
use lowered_ir::ir::{
    Affine, ArrayRef, Expr, IdSet, Indices, LocalId, LoopId, NodeDecl, NodeRef, Stmt, Var, is_mixed_radix,
    walk,
};

use crate::analysis::rename::Renaming;

/// Whether the block contains an operation that vector lanes over `var` cannot run: computed indices that
/// vary with `var`, words of random bits, logs.
pub(crate) fn has_no_lanes(block: &[Stmt], var: LoopId) -> bool {
    let stops = |stmt: &Stmt| match stmt {
        Stmt::SetDynamic { at, .. } => may_vary(at, var),
        Stmt::Log { .. } => true,
        _ => false,
    };
    let has_no_lane = |e: &Expr| match e {
        Expr::GetDynamic { at, .. } => may_vary(at, var),
        Expr::Lane { .. } | Expr::Lanes(_) => true,
        _ => false,
    };
    walk::stmts(block).any(stops) || walk::parts_in(block).any(has_no_lane)
}

/// Whether a computed index may differ between iterations over `var`. A local counts as differing, whatever
/// it holds.
fn may_vary(at: &Expr, var: LoopId) -> bool {
    mentions(at, var) || walk::parts(at).any(|e| matches!(e, Expr::GetLocal { .. }))
}

/// The nodes that the block accesses.
pub(crate) fn nodes(block: &[Stmt]) -> IdSet<NodeRef> {
    touches(block).iter().map(|t| t.node).collect()
}

/// For each node, the positions of the top-level statements that mention it, in order.
pub(crate) type NodePositions = BTreeMap<NodeRef, Vec<usize>>;

/// Finds the top-level statements that mention each node.
pub(crate) fn positions(body: &[Stmt]) -> NodePositions {
    let mut positions = NodePositions::new();
    for (at, stmt) in body.iter().enumerate() {
        for node in nodes(std::slice::from_ref(stmt)) {
            positions.entry(node).or_default().push(at);
        }
    }
    positions
}

/// For each node, the position of the only top-level statement that mentions it; none if there are several.
pub(crate) fn owners(body: &[Stmt]) -> BTreeMap<NodeRef, Option<usize>> {
    let only = |all: Vec<usize>| all.first().copied().filter(|_| all.len() == 1);
    positions(body).into_iter().map(|(node, all)| (node, only(all))).collect()
}

/// Whether `for var { first }; for other { second }` equals `for var { first; second }` with `var` in place
/// of `other`: no iteration of `second` accesses an element that a later iteration of `first` writes, or
/// writes one that a later iteration of `first` accesses.
///
/// The proof is the one of [`independent`](codegen_core::dependence::independent), for the nodes that both
/// bodies access and at least one writes. Iterations of the same body may depend on each other, because
/// fusion keeps their order. Each body comes with its variable and its effects.
pub(crate) fn can_fuse(
    (var, first, a): (LoopId, &[Stmt], &Effects),
    (other, second, b): (LoopId, &[Stmt], &Effects),
    ranges: &VariableRanges,
) -> bool {
    if !a.locals_apart(b) || (a.logs && b.logs) {
        return false;
    }
    let shared: IdSet<NodeRef> = a.conflicts(b).collect();
    if shared.is_empty() {
        return true;
    }
    let mut inner = walk::loops_in(first);
    inner.extend(walk::loops_in(second));
    // Most attempts fail, so only the indices of the second body get the variable of the first.
    let by = Affine::var(var);
    let moved = |indices: &Indices| -> Indices { indices.iter().map(|i| i.substitute(other, &by)).collect() };
    let touched: Vec<Touch<'_>> = touches(second).into_iter().filter(|t| shared.contains(&t.node)).collect();
    let indices: Vec<Option<Indices>> = touched.iter().map(|touch| touch.indices().map(moved)).collect();
    let behind = touched.iter().zip(&indices).map(|(touch, indices)| Touch {
        index: touch.index.and(indices.as_ref()),
        computed: touch.computed.and_then(|(_, axis)| Some((indices.as_ref()?, axis))),
        ..*touch
    });
    let all: Vec<Touch<'_>> = touches(first).into_iter().chain(behind).collect();
    shared.iter().all(|&node| separates_iterations(node, var, &all, &inner, ranges))
}

/// The nodes and locals that a piece of IR reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// Nodes with an access.
    pub(crate) nodes: IdSet<NodeRef>,
    pub(crate) written: IdSet<NodeRef>,
    /// Locals that are mentioned.
    pub(crate) locals: IdSet<LocalId>,
    /// Locals that are declared or set.
    pub(crate) set: IdSet<LocalId>,
    /// Whether lines are logged.
    pub(crate) logs: bool,
}

impl Effects {
    pub(crate) fn of(block: &[Stmt]) -> Effects {
        let mut effects = Effects::default();
        walk::stmts(block).for_each(|stmt| effects.write(stmt));
        walk::parts_in(block).filter_map(Expr::array).for_each(|array| {
            match array {
                ArrayRef::Node(node) => effects.nodes.insert(node),
                ArrayRef::Local(local) => effects.locals.insert(local),
            };
        });
        effects.nodes.extend(&effects.written);
        effects.locals.extend(&effects.set);
        effects
    }

    /// Adds the effects of another piece of IR.
    pub(crate) fn add(&mut self, other: &Effects) {
        self.nodes.extend(&other.nodes);
        self.written.extend(&other.written);
        self.locals.extend(&other.locals);
        self.set.extend(&other.set);
        self.logs |= other.logs;
    }

    /// The effects under other names.
    pub(crate) fn renamed(&self, names: &mut impl Renaming) -> Effects {
        Effects {
            nodes: self.nodes.iter().map(|&node| names.node(node, false)).collect(),
            written: self.written.iter().map(|&node| names.node(node, false)).collect(),
            locals: self.locals.iter().map(|&local| names.local(local)).collect(),
            set: self.set.iter().map(|&local| names.local(local)).collect(),
            logs: self.logs,
        }
    }

    fn write(&mut self, stmt: &Stmt) {
        match (stmt.array(), stmt) {
            (Some(ArrayRef::Node(node)), _) => drop(self.written.insert(node)),
            (Some(ArrayRef::Local(local)), _) | (None, &Stmt::Declare { local, .. }) => {
                self.set.insert(local);
            }
            (None, Stmt::Log { .. }) => self.logs = true,
            (None, _) => {}
        }
    }

    /// Whether two pieces of IR may run in either order.
    pub(crate) fn commute(&self, other: &Effects) -> bool {
        self.locals_apart(other) && !(self.logs && other.logs) && self.conflicts(other).next().is_none()
    }

    /// The nodes that both pieces of IR access and that at least one of them writes.
    fn conflicts<'a>(&'a self, other: &'a Effects) -> impl Iterator<Item = NodeRef> + 'a {
        let both = self.nodes.intersection(&other.nodes).copied();
        both.filter(move |node| self.written.contains(node) || other.written.contains(node))
    }

    fn locals_apart(&self, other: &Effects) -> bool {
        self.set.is_disjoint(&other.locals) && other.set.is_disjoint(&self.locals)
    }
}

/// Whether the statement writes every element of the node and reads none.
pub(crate) fn overwrites(stmt: &Stmt, node: NodeRef, decl: &NodeDecl) -> bool {
    if matches!(stmt, Stmt::Zero { node: zeroed } if *zeroed == node) {
        return true;
    }
    let block = std::slice::from_ref(stmt);
    let untouched = touches(block).iter().all(|t| t.node != node || t.write);
    untouched && covers(block, &mut Vec::new(), node, decl)
}

fn covers(block: &[Stmt], loops: &mut Vec<(LoopId, i64)>, node: NodeRef, decl: &NodeDecl) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::For { var, lo: 0, hi, body, .. } if let Some(limit @ 1..) = hi.constant() => {
            loops.push((*var, limit));
            let covered = covers(body, loops, node, decl);
            loops.pop();
            covered
        }
        Stmt::Set { node: set, index, .. } => *set == node && onto(index, loops, decl),
        _ => false,
    })
}

/// Whether the index takes every value of the node's index space.
fn onto(index: &Indices, loops: &[(LoopId, i64)], decl: &NodeDecl) -> bool {
    let extent = |var: Var| loops.iter().find(|(id, _)| Var::Loop(*id) == var).map(|(_, e)| *e);
    let mut used = BTreeSet::new();
    index.len() == decl.dims.len()
        && index.iter().zip(&decl.dims).all(|(index, &dim)| {
            let distinct = index.terms().iter().all(|&(var, _)| used.insert(var));
            distinct && index.offset() == 0 && fills(index, dim as i64, extent)
        })
}

/// Whether a mixed-radix index `v1 + e1·v2 + e1·e2·v3 …` takes every value of `0..dim`.
fn fills(index: &Affine, dim: i64, extent: impl Fn(Var) -> Option<i64>) -> bool {
    let mut terms = index.terms().to_vec();
    terms.sort_by_key(|&(_, coefficient)| coefficient);
    let mut span = 1i64;
    for (var, coefficient) in terms {
        match extent(var) {
            Some(extent) if coefficient == span && extent > 0 => span = span.saturating_mul(extent),
            _ => return false,
        }
    }
    span == dim
}

/// Whether iterations that differ in some of the variables `vars` access different elements. The indices may
/// mention all of these variables.
///
/// The proof looks at one dimension after another. If the variables of a dimension that are not determined
/// yet form a mixed-radix number, the value of this dimension's index determines them.
pub(crate) fn injective(index: &Indices, vars: &[LoopId], ranges: &VariableRanges) -> bool {
    let several = |var: &LoopId| ranges.extent((*var).into()) > 1;
    let mut unknown: BTreeSet<LoopId> = vars.iter().copied().filter(several).collect();
    loop {
        let before = unknown.len();
        for dim in index {
            if is_determined(dim, &unknown, ranges) {
                unknown.retain(|&var| !dim.mentions(var));
            }
        }
        if unknown.is_empty() || unknown.len() == before {
            return unknown.is_empty();
        }
    }
}

/// Whether the value of an index determines all variables of `unknown` in it.
fn is_determined(index: &Affine, unknown: &BTreeSet<LoopId>, ranges: &VariableRanges) -> bool {
    let open = index.terms().iter().filter(|(var, _)| matches!(var, Var::Loop(id) if unknown.contains(id)));
    let mut digits: Vec<(u64, u64)> =
        open.map(|&(var, c)| (c.unsigned_abs(), ranges.extent(var).unsigned_abs())).collect();
    is_mixed_radix(&mut digits)
}
