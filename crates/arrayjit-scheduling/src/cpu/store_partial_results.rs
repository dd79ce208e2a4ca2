//! Partial-result arrays: a local array that a long loop fills becomes a node, so that the loop can be a
//! kernel.
//!
//! `declare t; for c { … t[c] := v }; … t …` is one kernel, because locals do not outlive a kernel. With a
//! local node in the place of `t` the loop is a kernel of its own, and several threads can run it. The loop
//! must do more work than any other statement that mentions `t`, enough for several threads; it must only
//! store into `t`, have independent iterations once `t` is a node, and write every element before it is read.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, Block, Expr, IdSet, LocalId, Locals, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Stmt, walk,
};
use lowered_ir::passes::access::analyze_from;
use tnode::{MemoryMode, ModeState, Reason};

use crate::analysis::access::Effects;
use crate::analysis::cost;
use crate::cpu::forward_stores::forward_values;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::canonical::locals_as_nodes;
use codegen_core::dependence::{self, VariableRanges};

/// Replaces local arrays that a long loop fills by nodes, among the top-level statements and in top-level
/// loops of one iteration.
pub(crate) fn store_partial_results(routine: &mut LoweredRoutine, caps: &Caps, options: &ScheduleOptions) {
    if !options.parallel || caps.threads < 2 {
        return;
    }
    let mut body = Block::new();
    for stmt in std::mem::take(&mut routine.body) {
        match opened(&stmt) {
            Some(inside) if has_arrays(&inside) => body.extend(inside),
            _ => body.push(stmt),
        }
    }
    routine.body = body;
    let arrays = arrays(&routine.body);
    if !arrays.is_empty() {
        store_arrays(routine, arrays, options);
    }
    forward_values(routine);
}

/// Replaces an array by a node if a loop with enough work fills it.
fn store_arrays(routine: &mut LoweredRoutine, arrays: Vec<LocalId>, options: &ScheduleOptions) {
    let enough = 2.0 * options.grain_work as f64;
    let locals = routine.locals();
    let of = |stmt: &Stmt, routine: &LoweredRoutine| StatementUse::of(stmt, routine, &locals);
    let mut uses: Vec<StatementUse> = routine.body.iter().map(|stmt| of(stmt, routine)).collect();
    let is_worthwhile =
        |local: &LocalId| uses.iter().any(|used| used.work >= enough && used.locals.contains(local));
    let worthwhile: Vec<LocalId> = arrays.into_iter().filter(is_worthwhile).collect();
    for local in worthwhile {
        let mentioning = uses.iter().enumerate().filter(|(_, used)| used.locals.contains(&local));
        let most = mentioning.max_by(|a, b| a.1.work.total_cmp(&b.1.work));
        if let Some((at, used)) = most
            && used.work >= enough
            && let Some((stored, declaration)) = stored(routine, local, at)
        {
            *routine = stored;
            uses.remove(declaration);
            for (used, stmt) in uses.iter_mut().zip(&routine.body) {
                if used.locals.contains(&local) {
                    *used = of(stmt, routine);
                }
            }
        }
    }
}

/// The work of a top-level statement, and the locals that it mentions.
struct StatementUse {
    work: f64,
    locals: IdSet<LocalId>,
}

impl StatementUse {
    fn of(stmt: &Stmt, routine: &LoweredRoutine, locals: &Locals) -> StatementUse {
        let stmt = std::slice::from_ref(stmt);
        StatementUse { work: cost::work(stmt, routine, locals), locals: Effects::of(stmt).locals }
    }
}

/// The body of a top-level loop of one iteration.
fn opened(stmt: &Stmt) -> Option<Block> {
    let Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } = stmt else { return None };
    if hi.constant() != Some(1) {
        return None;
    }
    let mut body = body.clone();
    walk::substitute(&mut body, *var, &Affine::constant(0));
    Some(body)
}

fn has_arrays(block: &[Stmt]) -> bool {
    !arrays(block).is_empty()
}

/// The arrays declared in the block itself, not in its loops.
fn arrays(block: &[Stmt]) -> Vec<LocalId> {
    let array = |stmt: &Stmt| match stmt {
        Stmt::Declare { local, space, .. } if space.is_private_memory() => Some(*local),
        _ => None,
    };
    block.iter().filter_map(array).collect()
}

/// The routine with a node in the place of a local, if the loop at position `at` can then be a kernel. Also
/// returns the position of the declaration, which is gone.
fn stored(routine: &LoweredRoutine, local: LocalId, at: usize) -> Option<(LoweredRoutine, usize)> {
    if reads(&routine.body[at..=at], local) {
        return None;
    }
    let mut stored = routine.clone();
    let (node, declaration) = declare_node(&mut stored, local)?;
    locals_as_nodes(&mut stored.body, &BTreeMap::from([(local, node)]));
    let ranges = VariableRanges::of(&stored);
    // The declaration before the loop has been removed.
    let gains = match &stored.body[at - 1] {
        Stmt::For { var, body, .. } => dependence::independent(*var, body, &ranges),
        _ => false,
    };
    (gains && !analyze_from(&stored, node)[node].read_before_write).then_some((stored, declaration))
}

fn reads(block: &[Stmt], local: LocalId) -> bool {
    walk::parts_in(block).any(|e| matches!(e, Expr::GetLocal { local: read, .. } if *read == local))
}

/// Replaces the declaration of a local by a new node. Also returns the position of the declaration.
fn declare_node(routine: &mut LoweredRoutine, local: LocalId) -> Option<(NodeRef, usize)> {
    let is_it = |stmt: &Stmt| matches!(stmt, Stmt::Declare { local: declared, .. } if *declared == local);
    let at = routine.body.iter().position(is_it)?;
    let Stmt::Declare { dtype, dims, .. } = routine.body.remove(at) else { return None };
    let mode = ModeState::decided(MemoryMode::Local, Reason::new("shared by kernels"));
    routine.nodes.push(NodeDecl { name: local.to_string(), dtype, dims, mode });
    Some((NodeRef(routine.nodes.len() as u32 - 1), at))
}
