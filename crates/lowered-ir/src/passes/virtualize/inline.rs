//! Rewrites the statements that use one node.

use std::collections::HashMap;

use super::body::IndexedBody;
use super::instantiate::{self, ElementInstance, ElementUse, UseSite};
use super::producer::Producer;
use super::statement_position::StatementPosition;
use super::{InlineRejection, MAX_NESTING, MAX_STATEMENT_SIZE, hazard};
use crate::ir::{ArrayRef, Block, Expr, Fresh, LoopKind, LoweredRoutine, NodeRef, Stmt, walk};
use crate::passes::cost::{depth, size};
use crate::passes::ranges::Ranges;
use crate::verify;

/// The tables of the routine that inlining reads and extends.
pub(super) struct InlineContext<'a> {
    /// The routine's tables; its body is elsewhere.
    pub(super) routine: &'a LoweredRoutine,
    pub(super) ranges: &'a mut Ranges,
    pub(super) fresh: &'a mut Fresh,
}

/// Each statement of the body that uses the node, with the computation inlined.
pub(super) fn replace_uses(
    producer: &Producer,
    body: &IndexedBody,
    ctx: &mut InlineContext<'_>,
) -> Result<Vec<(usize, Stmt)>, InlineRejection> {
    let mut replaced = Vec::new();
    for top in body.readers(producer.node) {
        let Some(stmt) = body.stmt(top) else { continue };
        if body.sets_alone(top, producer.node) || !has_uses(stmt, producer.node) {
            continue;
        }
        if top < producer.setters.1 {
            return Err(InlineRejection::SetAfterUse);
        }
        if let Some(input) = hazard::on_the_way(producer, body, top) {
            return Err(overwritten(input, ctx.routine));
        }
        replaced.push((top, replace(producer, body, top, stmt, ctx)?));
    }
    Ok(replaced)
}

fn overwritten(input: NodeRef, routine: &LoweredRoutine) -> InlineRejection {
    InlineRejection::InputOverwritten { input: routine.node(input).name.clone() }
}

/// Whether the statement reads the node for more than an accumulation into the node itself.
fn has_uses(stmt: &Stmt, node: NodeRef) -> bool {
    walk::stmts(std::slice::from_ref(stmt)).any(|s| match s {
        Stmt::Set { node: target, .. } if *target == node => false,
        _ => s.values().any(|value| mentions(value, node)),
    })
}

/// Whether the expression reads the node's memory.
fn mentions(value: &Expr, node: NodeRef) -> bool {
    walk::parts(value).any(|part| part.array() == Some(ArrayRef::Node(node)))
}

fn replace(
    producer: &Producer,
    body: &IndexedBody,
    top: usize,
    stmt: &Stmt,
    ctx: &mut InlineContext<'_>,
) -> Result<Stmt, InlineRejection> {
    let mut inliner = Inliner { producer, ctx, top, place: StatementPosition::default(), rewritten: false };
    let block = inliner.block(std::slice::from_ref(stmt), false)?;
    let rewritten = inliner.rewritten;
    ctx.ranges.add(&block);
    if let Some(input) = hazard::at_the_use(producer, &block, ctx.ranges) {
        return Err(overwritten(input, ctx.routine));
    }
    if rewritten {
        verify::verify_statements(ctx.routine, body.locals(), &block)
            .map_err(|error| InlineRejection::NotProvable { violation: error.violation.to_string() })?;
    }
    Ok(together(block, ctx.fresh))
}

/// Combines the statements into one, in a loop of one iteration if there are several: a setter and the
/// statements that it needs must stay one statement of the body, because otherwise the setter could not be
/// inlined later. The loops of one iteration are removed at the end.
fn together(mut block: Block, fresh: &mut Fresh) -> Stmt {
    match block.pop() {
        Some(only) if block.is_empty() => only,
        last => {
            block.extend(last);
            Stmt::serial(fresh.loop_id(), 1, block)
        }
    }
}

/// The nesting depth of the loops of the block.
fn nesting(block: &[Stmt]) -> usize {
    let depths = block.iter().map(|stmt| match stmt {
        Stmt::For { body, .. } => 1 + nesting(body),
        _ => 0,
    });
    depths.max().unwrap_or(0)
}

struct Inliner<'a, 'c> {
    producer: &'a Producer,
    ctx: &'a mut InlineContext<'c>,
    top: usize,
    place: StatementPosition,
    rewritten: bool,
}

impl Inliner<'_, '_> {
    fn block(&mut self, block: &[Stmt], in_vector: bool) -> Result<Block, InlineRejection> {
        let mut out = Block::with_capacity(block.len());
        for (at, stmt) in block.iter().enumerate() {
            let inner = !self.place.loops.is_empty();
            self.place.path.extend(inner.then_some(at));
            self.stmt(stmt, in_vector, &mut out)?;
            self.place.path.truncate(self.place.loops.len().saturating_sub(1));
        }
        Ok(out)
    }

    fn stmt(&mut self, stmt: &Stmt, in_vector: bool, out: &mut Block) -> Result<(), InlineRejection> {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                self.place.loops.push(*var);
                let body = self.block(body, in_vector || *kind == LoopKind::Vector)?;
                self.place.loops.pop();
                out.push(Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body });
            }
            // The node's own setters are dropped later.
            Stmt::Set { node, .. } if *node == self.producer.node => out.push(stmt.clone()),
            _ => {
                let mut stmt = stmt.clone();
                for value in stmt.values_mut() {
                    if let Some(new) = self.value(value, in_vector, out)? {
                        *value = new;
                    }
                }
                out.push(stmt);
            }
        }
        Ok(())
    }

    /// Replaces the uses in a value; `None` if it has none. Appends the statements that must run before the
    /// value is computed to `prelude`.
    fn value(
        &mut self,
        value: &Expr,
        in_vector: bool,
        prelude: &mut Block,
    ) -> Result<Option<Expr>, InlineRejection> {
        let uses = self.uses(value)?;
        if uses.is_empty() {
            return Ok(None);
        }
        let too_large = InlineRejection::TooLarge { limit: MAX_STATEMENT_SIZE };
        if uses.len().saturating_mul(self.producer.size) > MAX_STATEMENT_SIZE {
            return Err(too_large);
        }
        let mut values = HashMap::new();
        for (wanted, count) in uses {
            let ElementInstance { prelude: before, value } = self.instance(&wanted, count > 1)?;
            let loops = nesting(&before);
            if loops > 0 && in_vector {
                return Err(InlineRejection::LoopInVector);
            }
            if loops + self.place.loops.len() > MAX_NESTING {
                return Err(too_large);
            }
            prelude.extend(before);
            values.insert(wanted, value);
        }
        let mut chosen = true;
        let value = walk::map_expr(value.clone(), &mut |e| self.replaced(e, &values, &mut chosen));
        if !chosen {
            return Err(InlineRejection::Unguardable { what: "a value of type u32x4" });
        }
        if size(&value) > MAX_STATEMENT_SIZE || depth(&value) > MAX_NESTING {
            return Err(too_large);
        }
        Ok(Some(value))
    }

    fn instance(&mut self, wanted: &ElementUse, shared: bool) -> Result<ElementInstance, InlineRejection> {
        let mut site = UseSite {
            ranges: self.ctx.ranges,
            fresh: self.ctx.fresh,
            routine: self.ctx.routine,
            top: self.top,
            place: &self.place,
            rewritten: &mut self.rewritten,
        };
        instantiate::instantiate(self.producer, wanted, shared, &mut site)
    }

    /// The distinct uses in the value, in order, each with its number of occurrences.
    fn uses(&self, value: &Expr) -> Result<Vec<(ElementUse, usize)>, InlineRejection> {
        let mut uses: Vec<(ElementUse, usize)> = Vec::new();
        let mut computed = false;
        walk::parts(value).for_each(|part| {
            computed |= matches!(part, Expr::GetDynamic { node, .. } if *node == self.producer.node);
            if let Some(found) = self.as_use(part) {
                match uses.iter_mut().find(|(u, _)| *u == found) {
                    Some((_, count)) => *count += 1,
                    None => uses.push((found, 1)),
                }
            }
        });
        if computed { Err(InlineRejection::ComputedIndex) } else { Ok(uses) }
    }

    fn as_use(&self, expr: &Expr) -> Option<ElementUse> {
        match expr {
            Expr::Get { node, index } if *node == self.producer.node => {
                Some(ElementUse { index: index.clone(), guard: None })
            }
            Expr::GetGuarded { guard, node, index, .. } if *node == self.producer.node => {
                Some(ElementUse { index: index.clone(), guard: Some(guard.clone()) })
            }
            _ => None,
        }
    }

    fn replaced(&self, expr: Expr, values: &HashMap<ElementUse, Expr>, chosen: &mut bool) -> Expr {
        let Some(value) = self.as_use(&expr).and_then(|wanted| values.get(&wanted)) else { return expr };
        let Expr::GetGuarded { guard, otherwise, .. } = &expr else { return value.clone() };
        let dtype = self.producer.dtype;
        match instantiate::select(guard, guard, value.clone(), (**otherwise).clone(), dtype) {
            Some(value) => value,
            None => {
                *chosen = false;
                expr
            }
        }
    }
}
