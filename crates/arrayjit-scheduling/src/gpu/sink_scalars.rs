//! Scalar sinking: a nest computes a scalar that it uses, instead of waiting for a kernel of one thread.
//!
//! `s := e; for … { … s … } = for … { l := e; … l … }`, for a local node that one top-level statement stores
//! and later nests read, if nothing between the store and a read writes an input of `e`. Contractions are
//! left alone, because their operands must not read locals.

use lowered_ir::ir::{Expr, IdSet, Indices, LoweredRoutine, NodeRef, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::access;
use crate::analysis::nest::{Nest, innermost};
use crate::analysis::nodes::is_guarded;
use crate::analysis::nodes::is_local;
use crate::gpu::accumulation::is_contraction;
use crate::gpu::context::Gpu;
use codegen_core::Workgroups;
use codegen_core::dependence;

/// Moves scalars that one top-level statement stores into the nests that read them.
pub(crate) fn sink_scalars(routine: &mut LoweredRoutine, workgroups: Workgroups) {
    let gpu = &mut Gpu::of(routine, workgroups);
    let mut at = 0;
    while at < routine.body.len() {
        match scalar(routine, at).filter(|found| is_sunk(routine, at, found, gpu)) {
            Some(found) => {
                routine.body.remove(at);
                routine.body[at..].iter_mut().for_each(|stmt| define(stmt, &found, gpu));
            }
            None => at += 1,
        }
    }
}

/// A store into one element of a node.
struct ScalarDefinition {
    node: NodeRef,
    index: Indices,
    value: Expr,
}

fn scalar(routine: &LoweredRoutine, at: usize) -> Option<ScalarDefinition> {
    let Stmt::Set { node, index, value } = &routine.body[at] else { return None };
    let reads_local = !dependence::locals_used(&routine.body[at..=at]).is_empty();
    let found = ScalarDefinition { node: *node, index: index.clone(), value: value.clone() };
    (is_local(routine.node(*node)) && !reads_local).then_some(found)
}

/// Whether every other mention of the scalar can be replaced by its value.
fn is_sunk(routine: &LoweredRoutine, at: usize, found: &ScalarDefinition, gpu: &Gpu) -> bool {
    let own = access::nodes(&routine.body[at..=at]);
    let mut used = false;
    let mut changed: IdSet<NodeRef> = IdSet::default();
    routine.body.iter().enumerate().filter(|(other, _)| *other != at).all(|(other, stmt)| {
        let block = std::slice::from_ref(stmt);
        if other > at {
            changed.extend(dependence::written(block));
        }
        if !access::nodes(block).contains(&found.node) {
            return true;
        }
        used = true;
        let touches =
            dependence::touches(block).into_iter().filter(|t| t.node == found.node).collect::<Vec<_>>();
        let plain = touches.iter().all(|t| !t.write && t.index == Some(&found.index));
        let takes = match stmt {
            Stmt::For { .. } => !Nest::of(stmt).is_some_and(|nest| is_contraction(&nest, gpu)),
            Stmt::Set { .. } => true,
            _ => false,
        };
        other > at && plain && takes && !is_guarded(block, found.node) && changed.is_disjoint(&own)
    }) && used
}

fn define(stmt: &mut Stmt, found: &ScalarDefinition, gpu: &mut Gpu) {
    if !access::nodes(std::slice::from_ref(stmt)).contains(&found.node) {
        return;
    }
    let by = match innermost(stmt) {
        None => found.value.clone(),
        Some(body) => {
            let dtype = gpu.nodes[found.node.index()].dtype;
            let (local, declare) = gpu.names.declare(dtype, Dims::new(), Space::Register);
            body.splice(0..0, [declare, Stmt::set_scalar(local, found.value.clone())]);
            Expr::local(local)
        }
    };
    walk::map_parts(std::slice::from_mut(stmt), &mut |e| match e {
        Expr::Get { node, .. } if node == found.node => by.clone(),
        other => other,
    });
}
