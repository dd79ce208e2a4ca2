//! Scans over time: steps that run once for each value of a letter.
//!
//! The letter is a symbol of the assignments while the body is lowered, so that every test counts it as one
//! unknown value in its range. Then it becomes the variable of a loop of kind
//! [`Scan`](lowered_ir::ir::LoopKind::Scan) around the statements of the body.

use std::collections::HashSet;

use tnode::{Dims, TensorNode};

use super::Result;
use super::error::LowerErrorKind;
use super::step::{LoweringContext, lower_steps};
use crate::indexing::{AxisIndex, Projection, Projections, StaticSymbol, are_surjective, axis_iterator};
use crate::{Accum, AccumOp, Assignments, ProgramStep, ScanEnd};
use lowered_ir::ir::{Affine, Block, Bound, Indices, LoopKind, Stmt, SymbolId, Var, walk};
use lowered_ir::passes::effects::Effects;

/// Rejects scans over symbols that a run binds, and statements that start a node anew in every step although
/// each step writes another part of it.
pub(super) fn check(assignments: &Assignments) -> Result<()> {
    crate::all_steps(&assignments.steps).try_for_each(|step| {
        let ProgramStep::Scan { symbol, steps, .. } = step else { return Ok(()) };
        let known = assignments.symbols.get(symbol.index());
        let Some(letter) = known.and_then(StaticSymbol::letter) else {
            let symbol = known.map_or_else(|| format!("number {}", symbol.0), StaticSymbol::to_string);
            return Err(LowerErrorKind::ScanSymbol { symbol }.into());
        };
        crate::all_steps(steps).flat_map(ProgramStep::accums).try_for_each(|accum| {
            let mentions = |index: &AxisIndex| index.affine().mentions(*symbol);
            match accum.projections.project_lhs().iter().position(mentions) {
                Some(axis) if accum.init_neutral => {
                    let (node, op, letter) = (accum.lhs.name(), accum.op, letter.to_owned());
                    Err(LowerErrorKind::Restarted { node, op, letter }.at(accum.origin.target_index(axis)))
                }
                _ => Ok(()),
            }
        })
    })
}

/// Lowers the body of a scan, and appends the loop around it. Of a body with a condition, the part that may
/// not run is a scan of at most one step.
pub(super) fn lower(
    (symbol, end): (SymbolId, Option<&ScanEnd>),
    steps: &[ProgramStep],
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    super::margins::enter_scan(steps, ctx);
    let (symbol, var) = (ctx.symbol(symbol), ctx.fresh.loop_id());
    let (always, perhaps) = end.map_or((steps, &[][..]), |end| end.split(steps));
    let mut body = lower_steps(always, ctx)?;
    let condition = end.map(|end| ctx.element(&end.node, Indices::new()).0);
    let mut bound = Bound::from(ctx.ranges[symbol.index()]);
    if let (Some(node), Some(end)) = (condition, end) {
        let inner = lower_steps(perhaps, ctx)?;
        let (var, hi) = (ctx.fresh.loop_id(), Bound::from(1).while_node(node));
        body.push(Stmt::For { var, lo: 0, hi, kind: LoopKind::Scan, body: inner });
        ctx.statements += 1;
        if end.is_final {
            bound = bound.while_node(node);
        }
    }
    if bound.constant() == Some(1) {
        walk::substitute(&mut body, symbol, &Affine::constant(0));
        block.append(&mut body);
        return Ok(());
    }
    walk::substitute(&mut body, symbol, &Affine::var(var));
    ctx.statements += 1;
    block.push(Stmt::For { var, lo: 0, hi: bound, kind: LoopKind::Scan, body });
    Ok(())
}

/// Rejects a letter that no scan around its mention binds: one of the routine's symbols behind the `bound`
/// ones.
pub(super) fn check_bound(body: &[Stmt], symbols: &[StaticSymbol], bound: usize) -> Result<()> {
    if symbols.len() == bound {
        return Ok(());
    }
    let vars = Effects::of(body).vars;
    let open = vars.iter().find_map(|var| match var {
        Var::Symbol(id) => symbols.get(id.index()).and_then(StaticSymbol::letter),
        Var::Loop(_) => None,
    });
    open.map_or(Ok(()), |letter| Err(LowerErrorKind::OutsideScan { letter: letter.to_owned() }.into()))
}

/// Whether plain assignments write every element of a node together, those of scans in all their steps.
pub(super) fn covers(assignments: &Assignments, node: &TensorNode) -> bool {
    let is_plain = |accum: &&Accum| accum.lhs == *node && accum.op == AccumOp::Assign && !accum.init_neutral;
    let accums = crate::all_steps(&assignments.steps).flat_map(ProgramStep::accums).filter(is_plain);
    let parts: Option<Vec<Projections>> =
        accums.map(|accum| over_steps(accum, &assignments.symbols)).collect();
    // Copies of the steps of a scan may write one part several times.
    let mut seen = HashSet::new();
    let mut is_new =
        |part: &&Projections| seen.insert((part.project_lhs().to_vec(), part.product_space().to_vec()));
    parts.is_some_and(|parts| are_surjective(&parts.iter().filter(|part| is_new(part)).collect::<Vec<_>>()))
}

/// The indices of a target with a loop for each letter of a scan in them; `None` if conditions bound
/// the loops.
fn over_steps(accum: &Accum, symbols: &[StaticSymbol]) -> Option<Projections> {
    let projections = &accum.projections;
    if projections.is_clipped() {
        return None;
    }
    let mut axes: Vec<usize> = projections.product_space().to_vec();
    let mut known: Vec<Var> = projections.product_iterators().iter().map(|&id| Var::Loop(id)).collect();
    let mut in_loops = |index: &AxisIndex| {
        let index = index.affine();
        index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
            let steps = match var {
                Var::Symbol(id) => symbols.get(id.index()).filter(|symbol| symbol.letter().is_some()),
                Var::Loop(_) => None,
            };
            if let Some(range) = steps.and_then(|symbol| symbol.range)
                && !known.contains(&var)
            {
                known.push(var);
                axes.push(usize::try_from(range).unwrap_or(0));
            }
            let at = known.iter().position(|known| *known == var);
            let var = at.map_or(var, |axis| Var::Loop(axis_iterator(axis)));
            sum.plus(&Affine::term(var, coefficient))
        })
    };
    if projections.project_lhs().iter().any(|index| index.computed().is_some()) {
        return None;
    }
    let lhs: Projection = projections.project_lhs().iter().map(|i| AxisIndex::new(in_loops(i))).collect();
    let dims = Dims::from_slice(projections.lhs_dims());
    Projections::new(&axes, (dims, lhs), Vec::new(), "over steps").ok()
}
