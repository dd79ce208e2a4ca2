//! Inlines a long computation without repeating it, by fusing the nest that sets the node with the statement
//! that uses it.
//!
//! `for i { …; %t[i] := v }; for j { %u[j] := f(%t[j]) }` becomes `for i { …; %u[i] := f(v) }`, if nothing
//! else reads `%t` and the two nests have the same loops. Otherwise the computation would be copied to the
//! use, and in a chain of virtual nodes each copy would contain all earlier copies. Short computations are
//! copied nevertheless, so this fusion changes nothing in small programs.

use super::body::IndexedBody;
use super::inline::InlineContext;
use super::instantiate::MAX_DEPTH;
use super::{Effects, InlinedComputation, MAX_NESTING, MAX_STATEMENT_SIZE, hazard};
use crate::ir::{Affine, Block, Expr, Fresh, Indices, LoopId, LoopKind, NodeRef, Stmt, walk};
use crate::passes::cost::{cost, depth, size};

/// Computations with fewer parts are copied.
const LONG: usize = 256;

/// The statement that sets a node and the one that uses it.
struct SetterAndUser {
    setter: usize,
    user: usize,
    /// The number of reads of the element by the user.
    uses: usize,
}

/// Inlines the node, if the nest that sets it can be fused with the statement that uses it.
pub(super) fn extend(
    body: &mut IndexedBody,
    node: NodeRef,
    ctx: &mut InlineContext<'_>,
) -> Option<InlinedComputation> {
    let SetterAndUser { setter, user, uses } = pair(body, node)?;
    let computed = computed(body, node, setter)?;
    let dtype = ctx.routine.node(node).dtype;
    body.join(node, setter, user, |first, second| joined(first, second, node, uses > 1, dtype, ctx.fresh));
    Some(computed)
}

/// The computation of the node before other nodes were inlined into it, since these have computations of
/// their own.
fn computed(body: &IndexedBody, node: NodeRef, setter: usize) -> Option<InlinedComputation> {
    let stmt = body.apart(setter).or_else(|| body.stmt(setter))?.clone();
    let inputs = Effects::of(std::slice::from_ref(&stmt)).reads;
    let overwritten = inputs.into_iter().find(|&input| body.is_written_between(input, setter, usize::MAX));
    Some(InlinedComputation { node, body: vec![stmt], overwritten })
}

/// The pair, if everything fits.
fn pair(body: &IndexedBody, node: NodeRef) -> Option<SetterAndUser> {
    let setter = only(body.writers(node))?;
    let (of_setter, user) = (body.touches(setter), only(body.readers(node))?);
    let of_user = body.touches(user);
    let fits = setter < user
        && of_setter.size >= LONG
        && of_user.size < of_setter.size
        && body.sets_alone(setter, node)
        && !hazard::between(&of_setter.reads, body, setter, user)
        && of_user.writes.is_disjoint(&of_setter.reads);
    if !fits {
        return None;
    }
    let (first, second) = (PerfectNest::of(body.stmt(setter)?), PerfectNest::of(body.stmt(user)?));
    let Some(Stmt::Set { node: target, index, value }) = first.body.last() else { return None };
    if *target != node || first.loops.is_empty() || !first.is_pointwise(index) {
        return None;
    }
    let same_loops = first.indexed(index).map(|l| l.1).eq(second.loops.iter().map(|l| l.1));
    let wanted: Indices = second.loops.iter().map(|&(var, _)| Affine::var(var)).collect();
    let uses = same_loops.then(|| uses(second.body, node, &wanted)).flatten()?;
    let (own_size, own_depth) = uses.of_value;
    let fits = own_size + uses.count * size(value) <= MAX_STATEMENT_SIZE
        && own_depth + depth(value).max(MAX_DEPTH) <= MAX_NESTING;
    fits.then_some(SetterAndUser { setter, user, uses: uses.count })
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// Perfectly nested serial loops from 0 to constants, with the body of the innermost one.
struct PerfectNest<'a> {
    loops: Vec<(LoopId, i64)>,
    body: &'a [Stmt],
}

impl<'a> PerfectNest<'a> {
    fn of(stmt: &'a Stmt) -> PerfectNest<'a> {
        let mut nest = PerfectNest { loops: Vec::new(), body: std::slice::from_ref(stmt) };
        while let [only @ Stmt::For { var, hi, body, .. }] = nest.body
            && is_loop(only)
        {
            nest.loops.push((*var, hi.limit));
            nest.body = body;
        }
        nest
    }

    /// Whether the index consists of single loop variables, in the order of their loops, and all other loops
    /// have one iteration.
    fn is_pointwise(&self, index: &Indices) -> bool {
        let vars = self.indexed(index).map(|&(var, _)| Affine::var(var));
        vars.eq(index.iter().cloned())
            && self.loops.iter().all(|&(var, extent)| extent == 1 || index.iter().any(|i| i.mentions(var)))
    }

    /// The loops that the index mentions.
    fn indexed(&self, index: &Indices) -> impl Iterator<Item = &(LoopId, i64)> {
        self.loops.iter().filter(move |(var, _)| index.iter().any(|i| i.mentions(*var)))
    }
}

/// The reads of a node in a block.
struct NodeUses {
    count: usize,
    /// Size and depth of the value that reads the node.
    of_value: (usize, usize),
}

/// The uses, if one value of one statement of the block itself reads the node, and only at the index wanted.
fn uses(block: &[Stmt], node: NodeRef, wanted: &Indices) -> Option<NodeUses> {
    let mut found = None;
    for stmt in block {
        if matches!(stmt, Stmt::For { .. }) && Effects::of(std::slice::from_ref(stmt)).reads.contains(&node) {
            return None;
        }
        for value in stmt.values() {
            let (mut count, mut plain) = (0, true);
            walk::parts(value).for_each(|part| match part {
                Expr::Get { node: read, index } if *read == node => {
                    count += 1;
                    plain &= index == wanted;
                }
                Expr::GetGuarded { node: read, .. } | Expr::GetDynamic { node: read, .. } => {
                    plain &= *read != node;
                }
                _ => {}
            });
            if !plain || count > 0 && found.is_some() {
                return None;
            }
            if count > 0 {
                found = Some(NodeUses { count, of_value: (size(value), depth(value)) });
            }
        }
    }
    found
}

/// The nest of the first statement, with the body of the second nest in place of its last statement. The
/// value of that last statement replaces the reads of the node.
fn joined(
    mut first: Stmt,
    second: Stmt,
    node: NodeRef,
    shared: bool,
    dtype: tnode::DType,
    fresh: &mut Fresh,
) -> Stmt {
    let old = PerfectNest::of(&second).loops;
    let mut rest = innermost(second);
    let mut vars = Vec::new();
    let Some(block) = innermost_mut(&mut first, &mut vars) else { return first };
    let Some(Stmt::Set { index, mut value, .. }) = block.pop() else { return first };
    vars.retain(|var| index.iter().any(|i| i.mentions(*var)));
    for (new, (old, _)) in vars.into_iter().zip(old) {
        walk::substitute(&mut rest, old, &Affine::var(new));
    }
    if depth(&value) > MAX_DEPTH || shared && cost(&value) > 1 {
        let local = fresh.local_id();
        block.push(Stmt::scalar(local, dtype));
        block.push(Stmt::set_scalar(local, std::mem::replace(&mut value, Expr::local(local))));
    }
    walk::map_parts(&mut rest, &mut |part| match part {
        Expr::Get { node: read, .. } if read == node => value.clone(),
        other => other,
    });
    block.append(&mut rest);
    first
}

fn is_loop(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { lo: 0, hi, kind: LoopKind::Serial, .. } if hi.is_constant())
}

/// The body of the innermost loop of a nest.
fn innermost(stmt: Stmt) -> Block {
    let mut block = vec![stmt];
    while block.len() == 1 && is_loop(&block[0]) {
        match block.pop() {
            Some(Stmt::For { body, .. }) => block = body,
            other => block.extend(other),
        }
    }
    block
}

/// Like [`innermost`], but returns a reference, if the statement is a loop. `vars` gets the variables of the
/// loops.
fn innermost_mut<'a>(stmt: &'a mut Stmt, vars: &mut Vec<LoopId>) -> Option<&'a mut Block> {
    let Stmt::For { var, body, .. } = stmt else { return None };
    vars.push(*var);
    if body.len() == 1 && is_loop(&body[0]) { innermost_mut(&mut body[0], vars) } else { Some(body) }
}
