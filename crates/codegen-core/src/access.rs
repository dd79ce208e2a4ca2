//! Which elements of which nodes a piece of IR touches, and what follows: independence of iterations, full overwrites.
//!
//! Everything here is conservative: a `true` is a proof, a `false` only means that none was found.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, Bound, Expr, Indices, LocalId, LoopId, NodeDecl, NodeRef, Routine, Stmt, Symbol, Var,
    is_mixed_radix, walk,
};

/// One place that touches a node.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    /// Which node.
    pub node: NodeRef,
    /// Which element; `None` means all of them or, where one index is computed, any.
    pub index: Option<&'a Indices>,
    /// The indices of an element that is computed in one dimension, and that dimension.
    pub computed: Option<(&'a Indices, usize)>,
    /// Whether it is written.
    pub write: bool,
}

impl<'a> Touch<'a> {
    /// The indices as written, of which one may be computed; none where all elements are meant.
    pub fn indices(&self) -> Option<&'a Indices> {
        self.index.or(self.computed.map(|(indices, _)| indices))
    }
}

/// Every place in the block that touches a node, in order, a statement's reads before its write. Merge buffers are apart.
pub fn touches(block: &[Stmt]) -> Vec<Touch<'_>> {
    let mut found = Vec::new();
    walk::each_stmt(block, &mut |stmt| {
        stmt.values().into_iter().for_each(|value| reads(value, &mut found));
        match stmt {
            Stmt::Set { node, index, .. } => {
                found.push(Touch { node: *node, index: Some(index), computed: None, write: true });
            }
            Stmt::SetDynamic { node, index, axis, op, .. } => {
                let touch = Touch { node: *node, index: None, computed: Some((index, *axis)), write: true };
                found.extend(op.map(|_| Touch { write: false, ..touch }));
                found.push(touch);
            }
            Stmt::Zero { node } => {
                found.push(Touch { node: *node, index: None, computed: None, write: true });
            }
            _ => {}
        }
    });
    found
}

/// Whether the block has anything whose iterations over `var` a machine cannot do in lanes: indices that differ in more than a
/// stride, parts of random bits, logs.
pub fn has_no_lanes(block: &[Stmt], var: LoopId) -> bool {
    let mut found = false;
    walk::each_stmt(block, &mut |stmt| match stmt {
        Stmt::SetDynamic { at, .. } => found |= may_vary(at, var),
        Stmt::Log { .. } => found = true,
        Stmt::For { .. }
        | Stmt::Set { .. }
        | Stmt::SetLocal { .. }
        | Stmt::Zero { .. }
        | Stmt::Declare { .. }
        | Stmt::Comment(_) => {}
    });
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |e| match e {
            Expr::GetDynamic { at, .. } => found |= may_vary(at, var),
            Expr::Lane { .. } | Expr::Lanes(_) => found = true,
            _ => {}
        });
    });
    found
}

/// Whether any index in the expression mentions the loop.
pub fn mentions(expr: &Expr, var: LoopId) -> bool {
    let mut found = false;
    walk::each_expr(expr, &mut |e| {
        found |= match e {
            Expr::Get { index, .. }
            | Expr::GetDynamic { index, .. }
            | Expr::GetMerge { index, .. }
            | Expr::GetLocal { index, .. } => index.iter().any(|i| i.mentions(var)),
            Expr::GetGuarded { guard, index, .. } => {
                index.iter().any(|i| i.mentions(var)) || guard.iter().any(|r| r.index.mentions(var))
            }
            Expr::Index { index, .. } => index.mentions(var),
            _ => false,
        };
    });
    found
}

/// Whether a computed index may differ between the iterations over `var`; locals may, whatever they hold.
fn may_vary(at: &Expr, var: LoopId) -> bool {
    let mut local = false;
    walk::each_expr(at, &mut |e| local |= matches!(e, Expr::GetLocal { .. }));
    local || mentions(at, var)
}

fn logs(block: &[Stmt]) -> bool {
    let mut found = false;
    walk::each_stmt(block, &mut |stmt| found |= matches!(stmt, Stmt::Log { .. }));
    found
}

fn reads<'a>(value: &'a Expr, found: &mut Vec<Touch<'a>>) {
    walk::each_expr(value, &mut |e| match e {
        Expr::Get { node, index } | Expr::GetGuarded { node, index, .. } => {
            found.push(Touch { node: *node, index: Some(index), computed: None, write: false });
        }
        Expr::GetDynamic { node, index, axis, .. } => {
            let computed = Some((index, *axis));
            found.push(Touch { node: *node, index: None, computed, write: false });
        }
        _ => {}
    });
}

/// The nodes the block touches.
pub fn nodes(block: &[Stmt]) -> BTreeSet<NodeRef> {
    touches(block).iter().map(|t| t.node).collect()
}

/// The nodes the block writes.
pub fn written(block: &[Stmt]) -> BTreeSet<NodeRef> {
    touches(block).iter().filter(|t| t.write).map(|t| t.node).collect()
}

/// The only top-level statement that mentions each node, if there is only one.
pub fn owners(body: &[Stmt]) -> BTreeMap<NodeRef, Option<usize>> {
    let mut owners = BTreeMap::new();
    for (at, stmt) in body.iter().enumerate() {
        for node in nodes(std::slice::from_ref(stmt)) {
            owners.entry(node).and_modify(|owner| *owner = None).or_insert(Some(at));
        }
    }
    owners
}

/// The closed intervals of variables.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    loops: BTreeMap<LoopId, (i64, i64)>,
    symbols: Vec<i64>,
}

impl Ranges {
    /// The ranges of a routine's symbols and of all its loops.
    pub fn of(routine: &Routine) -> Ranges {
        let mut ranges = Ranges { loops: BTreeMap::new(), symbols: symbol_ranges(&routine.symbols) };
        ranges.add(&routine.body);
        ranges
    }

    /// Adds the loops of a block.
    pub fn add(&mut self, block: &[Stmt]) {
        walk::each_stmt(block, &mut |stmt| {
            if let Stmt::For { var, lo, hi, .. } = stmt {
                self.loops.insert(*var, (*lo, (hi.limit - 1).max(*lo)));
            }
        });
    }

    /// The interval of a variable.
    pub fn get(&self, var: Var) -> (i64, i64) {
        match var {
            Var::Loop(id) => self.loops.get(&id).copied().unwrap_or((i64::MIN / 4, i64::MAX / 4)),
            Var::Symbol(id) => (0, self.symbols.get(id.index()).map_or(i64::MAX / 4, |range| range - 1)),
        }
    }

    /// How many values a variable may have.
    pub fn extent(&self, var: Var) -> i64 {
        let (lo, hi) = self.get(var);
        hi - lo + 1
    }
}

fn symbol_ranges(symbols: &[Symbol]) -> Vec<i64> {
    symbols.iter().map(|s| s.range.max(1)).collect()
}

/// Whether the iterations of the loop over `var` with this body are independent: no element of a node is written in one and
/// touched in another, and no local outlives an iteration.
///
/// The proof: every node that is written has a dimension in which all its indices are `c·var + inner + fixed` with
/// one `c ≠ 0` and one `fixed`, and the values of `inner` span less than `|c|`.
pub fn independent(var: LoopId, body: &[Stmt], ranges: &Ranges) -> bool {
    let inner = walk::loops_in(body);
    let all = touches(body);
    keeps_locals(body)
        && !logs(body)
        && written(body).iter().all(|&node| tells_apart(node, var, &all, &inner, ranges))
}

/// Whether `for var { first }; for var { second }` may run in step, as `for var { first; second }`: nothing that an iteration of
/// `second` touches is written in a later one of `first`, and nothing that it writes is touched there.
///
/// The proof is that of [`independent`], for the nodes that both touch and one writes. Iterations of one body may depend on each
/// other; their order stays.
pub fn in_step(var: LoopId, first: &[Stmt], second: &[Stmt], ranges: &Ranges) -> bool {
    let (a, b) = (Effects::of(first), Effects::of(second));
    if !a.locals_apart(&b) || (a.logs && b.logs) {
        return false;
    }
    let mut shared = a.conflicts(&b).peekable();
    if shared.peek().is_none() {
        return true;
    }
    let mut inner = walk::loops_in(first);
    inner.extend(walk::loops_in(second));
    let all: Vec<Touch<'_>> = touches(first).into_iter().chain(touches(second)).collect();
    shared.all(|node| tells_apart(node, var, &all, &inner, ranges))
}

/// Whether all that touches a node tells the iterations over `var` apart.
pub fn tells_apart(
    node: NodeRef,
    var: LoopId,
    all: &[Touch<'_>],
    inner: &BTreeSet<LoopId>,
    ranges: &Ranges,
) -> bool {
    let of_node = || all.iter().filter(|t| t.node == node);
    let indices: Option<Vec<_>> = of_node().map(Touch::indices).collect();
    let computed: BTreeSet<usize> = of_node().filter_map(|t| t.computed.map(|c| c.1)).collect();
    indices.is_some_and(|indices| separated(var, &indices, &computed, inner, ranges))
}

/// What a piece of IR depends on, and what depends on it.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The nodes it touches.
    pub nodes: BTreeSet<NodeRef>,
    /// Those that it writes.
    pub written: BTreeSet<NodeRef>,
    /// The locals it mentions.
    pub locals: BTreeSet<LocalId>,
    /// Those that it declares or stores into.
    pub set: BTreeSet<LocalId>,
    /// Whether it logs.
    pub logs: bool,
}

impl Effects {
    /// Those of a block.
    pub fn of(block: &[Stmt]) -> Effects {
        let mut effects = Effects { logs: logs(block), ..Effects::default() };
        for touch in touches(block) {
            effects.nodes.insert(touch.node);
            if touch.write {
                effects.written.insert(touch.node);
            }
        }
        effects.locals = locals_used(block);
        walk::each_stmt(block, &mut |stmt| {
            if let Stmt::SetLocal { local, .. } | Stmt::Declare { local, .. } = stmt {
                effects.set.insert(*local);
            }
        });
        effects.locals.extend(&effects.set);
        effects
    }

    /// Whether the two may run in either order.
    pub fn commute(&self, other: &Effects) -> bool {
        self.locals_apart(other) && !(self.logs && other.logs) && self.conflicts(other).next().is_none()
    }

    /// The nodes that both touch and one writes.
    fn conflicts<'a>(&'a self, other: &'a Effects) -> impl Iterator<Item = NodeRef> + 'a {
        let both = self.nodes.intersection(&other.nodes).copied();
        both.filter(move |node| self.written.contains(node) || other.written.contains(node))
    }

    fn locals_apart(&self, other: &Effects) -> bool {
        self.set.is_disjoint(&other.locals) && other.set.is_disjoint(&self.locals)
    }
}

/// Whether some dimension but the computed ones tells iterations apart.
fn separated(
    var: LoopId,
    indices: &[&Indices],
    computed: &BTreeSet<usize>,
    inner: &BTreeSet<LoopId>,
    ranges: &Ranges,
) -> bool {
    let rank = indices.first().map_or(0, |index| index.len());
    (0..rank).filter(|dim| !computed.contains(dim)).any(|dim| separated_in(dim, var, indices, inner, ranges))
}

fn separated_in(
    dim: usize,
    var: LoopId,
    indices: &[&Indices],
    inner: &BTreeSet<LoopId>,
    ranges: &Ranges,
) -> bool {
    let mut common: Option<(i64, Affine)> = None;
    let (mut lo, mut hi) = (i64::MAX, i64::MIN);
    for index in indices {
        let Some(index) = index.get(dim) else { return false };
        let (moving, fixed) = split(index, var, inner);
        let step = index.coefficient(var);
        match &common {
            None => common = Some((step, fixed)),
            Some(first) if *first != (step, fixed) => return false,
            Some(_) => {}
        }
        let Some((a, b)) = moving.bounds(|v| ranges.get(v)) else { return false };
        (lo, hi) = (lo.min(a), hi.max(b));
    }
    common.is_some_and(|(step, _)| step != 0 && hi - lo < step.abs())
}

/// The index without `var`, as the part that moves with inner loops (and the offset) and the part that does not.
fn split(index: &Affine, var: LoopId, inner: &BTreeSet<LoopId>) -> (Affine, Affine) {
    let mut moving = Affine::constant(index.offset());
    let mut fixed = Affine::default();
    for &(v, coefficient) in index.terms() {
        match v {
            Var::Loop(id) if id == var => {}
            Var::Loop(id) if inner.contains(&id) => moving.add_term(v, coefficient),
            _ => fixed.add_term(v, coefficient),
        }
    }
    (moving, fixed)
}

/// The locals declared in a block.
pub fn declared(block: &[Stmt]) -> BTreeSet<LocalId> {
    let mut locals = BTreeSet::new();
    walk::each_stmt(block, &mut |stmt| {
        if let Stmt::Declare { local, .. } = stmt {
            locals.insert(*local);
        }
    });
    locals
}

/// The locals a block reads or writes.
pub fn locals_used(block: &[Stmt]) -> BTreeSet<LocalId> {
    let mut used = BTreeSet::new();
    walk::each_stmt(block, &mut |stmt| {
        if let Stmt::SetLocal { local, .. } = stmt {
            used.insert(*local);
        }
    });
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetLocal { local, .. } = e {
                used.insert(*local);
            }
        });
    });
    used
}

/// Whether the block writes only locals that it declares.
fn keeps_locals(block: &[Stmt]) -> bool {
    let own = declared(block);
    let mut kept = true;
    walk::each_stmt(block, &mut |stmt| {
        if let Stmt::SetLocal { local, .. } = stmt {
            kept &= own.contains(local);
        }
    });
    kept
}

/// Whether the statement writes every element of the node, and reads none of it.
pub fn overwrites(stmt: &Stmt, node: NodeRef, decl: &NodeDecl) -> bool {
    if matches!(stmt, Stmt::Zero { node: zeroed } if *zeroed == node) {
        return true;
    }
    let block = std::slice::from_ref(stmt);
    let untouched = touches(block).iter().all(|t| t.node != node || t.write);
    untouched && covers(block, &mut Vec::new(), node, decl)
}

fn covers(block: &[Stmt], loops: &mut Vec<(LoopId, i64)>, node: NodeRef, decl: &NodeDecl) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::For { var, lo: 0, hi: Bound { limit, symbol: None }, body, .. } if *limit > 0 => {
            loops.push((*var, *limit));
            let covered = covers(body, loops, node, decl);
            loops.pop();
            covered
        }
        Stmt::Set { node: set, index, .. } => *set == node && onto(index, loops, decl),
        _ => false,
    })
}

/// Whether the index takes every value of the node's index space as the loops run.
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

/// Whether different values of `vars` (all of which the indices may mention) give different elements.
///
/// The proof solves one dimension after another: a dimension whose unknown variables form a mixed-radix number determines
/// them.
pub fn injective(index: &Indices, vars: &[LoopId], ranges: &Ranges) -> bool {
    let several = |var: &LoopId| ranges.extent((*var).into()) > 1;
    let mut unknown: BTreeSet<LoopId> = vars.iter().copied().filter(several).collect();
    loop {
        let before = unknown.len();
        for dim in index {
            if is_told(dim, &unknown, ranges) {
                unknown.retain(|&var| !dim.mentions(var));
            }
        }
        if unknown.is_empty() || unknown.len() == before {
            return unknown.is_empty();
        }
    }
}

/// Whether the unknown variables of an index can be told from its value.
fn is_told(index: &Affine, unknown: &BTreeSet<LoopId>, ranges: &Ranges) -> bool {
    let open = index.terms().iter().filter(|(var, _)| matches!(var, Var::Loop(id) if unknown.contains(id)));
    let mut digits: Vec<(u64, u64)> =
        open.map(|&(var, c)| (c.unsigned_abs(), ranges.extent(var).unsigned_abs())).collect();
    is_mixed_radix(&mut digits)
}
