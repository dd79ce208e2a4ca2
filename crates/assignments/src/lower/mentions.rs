//! Finds the source span at which a program first mentions a node or symbol, for errors. Only called after an
//! error occurs.

use tnode::TensorNode;

use super::view::Views;
use crate::indexing::AxisIndex;
use crate::{Accum, Assignments, FetchOp, KeyPart, Operand, ProgramStep, Random, SampleValues};
use lowered_ir::SourceSpan;
use lowered_ir::ir::{SymbolId, Var};

/// The first source span that `of` returns for the steps, in order.
fn first(
    assignments: &Assignments,
    of: impl Fn(&ProgramStep) -> Option<Option<SourceSpan>>,
) -> Option<SourceSpan> {
    crate::all_steps(&assignments.steps).find_map(of).flatten()
}

/// The span of the first access to a node or to a view of it.
pub(super) fn of_node(assignments: &Assignments, views: &Views, node: &TensorNode) -> Option<SourceSpan> {
    let is_it = |mentioned: &TensorNode| views.home(mentioned).0 == *node;
    first(assignments, |step| match step {
        ProgramStep::Fetch { node: target, origin, .. } if is_it(target) => Some(origin.target()),
        ProgramStep::Fetch {
            op:
                FetchOp::Slice { of, .. }
                | FetchOp::Order { of, .. }
                | FetchOp::SampleValues(SampleValues { of, .. }),
            origin,
            ..
        } if is_it(of) => Some(origin.operand(0)),
        step => step.accums().iter().find_map(|accum| {
            let node_of = |operand: &Operand| match operand {
                Operand::MergeBuffer(node) => Some(node.clone()),
                operand => operand.node().cloned(),
            };
            let read = accum.operands().position(|operand| node_of(operand).is_some_and(|node| is_it(&node)));
            if is_it(&accum.lhs) {
                return Some(accum.origin.target());
            }
            read.map(|at| accum.origin.operand(at))
        }),
    })
}

/// The span of the first read of the node's merge buffer.
pub(super) fn of_merge(assignments: &Assignments, node: &TensorNode) -> Option<SourceSpan> {
    first(assignments, |step| {
        step.accums().iter().find_map(|accum| {
            let read =
                accum.operands().position(|operand| matches!(operand, Operand::MergeBuffer(n) if n == node));
            read.map(|at| accum.origin.operand(at))
        })
    })
}

/// The span of the first mention of a static symbol.
pub(super) fn of_symbol(assignments: &Assignments, name: &str) -> Option<SourceSpan> {
    let is_it = |id: SymbolId| assignments.symbols.get(id.index()).is_some_and(|symbol| symbol.name == *name);
    let in_key =
        |random: &Random| random.key.iter().any(|part| matches!(part, KeyPart::Symbol(id) if is_it(*id)));
    first(assignments, |step| match step {
        ProgramStep::Fetch {
            op: FetchOp::EmbedSymbol(id) | FetchOp::Slice { index: id, .. },
            origin,
            ..
        } if is_it(*id) => Some(origin.operand(0)),
        ProgramStep::Fetch { op: FetchOp::Random(random), origin, .. } if in_key(random) => {
            Some(origin.operand(0))
        }
        step => step.accums().iter().find_map(|accum| in_accum(accum, &is_it, &in_key)),
    })
}

/// The span of the first index (`is_it`) or key of random numbers (`in_key`) in an accumulation that mentions
/// the symbol; the statement, if only a condition does.
fn in_accum(
    accum: &Accum,
    is_it: &impl Fn(SymbolId) -> bool,
    in_key: &impl Fn(&Random) -> bool,
) -> Option<Option<SourceSpan>> {
    let mentions = |index: &AxisIndex| {
        let index = index.affine();
        index.terms().iter().any(|&(var, _)| matches!(var, Var::Symbol(id) if is_it(id)))
    };
    let projections = &accum.projections;
    if let Some(axis) = projections.project_lhs().iter().position(mentions) {
        return Some(accum.origin.target_index(axis));
    }
    let mut operands = accum.operands().zip(projections.project_rhs()).enumerate();
    let found = operands.find_map(|(at, (operand, projection))| {
        let keyed = matches!(operand, Operand::Random { random, .. } if in_key(random));
        match projection.iter().position(mentions) {
            Some(axis) => Some(accum.origin.operand_index(at, axis)),
            None if keyed => Some(accum.origin.operand(at)),
            None => None,
        }
    });
    let in_condition =
        || projections.clips().iter().flatten().any(|clip| mentions(&AxisIndex::new(clip.clone())));
    found.or_else(|| in_condition().then(|| accum.origin.statement()))
}
