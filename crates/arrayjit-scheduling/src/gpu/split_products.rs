//! Products below a diagonal, such as the scores of earlier positions and the sums over these, are divided
//! into products of squares: see [`split_triangles`](crate::common::split_triangles). Threads share a square
//! in tiles of shared memory, or tensor cores take it; a thread of a triangle has an end of its own.
//!
//! Attention that becomes one kernel ([`fuse_attention`]) stays as it is. Whether it does is known later,
//! so the passes up to there run on a copy of the routine.

use std::collections::BTreeSet;

use codegen_core::Caps;
use lowered_ir::ir::{LoweredRoutine, NodeRef, Numerics, Stmt, walk};

use super::fuse_attention::fuse_attention;
use super::sink_scalars::sink_scalars;
use crate::analysis::access;
use crate::analysis::reduction::multiply_add;
use crate::analysis::uses::RoutineUses;
use crate::common::make_numerics_explicit::make_numerics_explicit;
use crate::common::propagate_initializers::propagate_initializers;
use crate::common::split_triangles::{Division, split_triangles};

/// A triangle of this many rows, those of a small tile, is not divided.
const SMALL: i64 = 64;

/// Divides the products of triangles.
pub(crate) fn split_products(routine: &mut LoweredRoutine, uses: &mut RoutineUses, caps: &Caps) {
    if !routine.body.iter().any(|stmt| has_inner_end(stmt) && adds_products(stmt)) {
        return;
    }
    let fused = fused(routine, uses, caps);
    split_triangles(routine, uses, &|stmt| match () {
        () if access::nodes(std::slice::from_ref(stmt)).iter().any(|node| fused.contains(node)) => {
            Division::Untouched
        }
        () if adds_products(stmt) => Division::Into(SMALL),
        () => Division::Whole,
    });
}

/// The nodes that only attention mentions which becomes one kernel.
fn fused(routine: &LoweredRoutine, uses: &RoutineUses, caps: &Caps) -> BTreeSet<NodeRef> {
    let Some(workgroups) = caps.workgroups.filter(|_| routine.numerics == Numerics::Fast) else {
        return BTreeSet::new();
    };
    if caps.contractions.is_empty() {
        return BTreeSet::new();
    }
    let mut copy = routine.clone();
    make_numerics_explicit(&mut copy, caps);
    propagate_initializers(&mut copy, &mut uses.clone());
    sink_scalars(&mut copy, workgroups);
    let before = access::nodes(&copy.body);
    fuse_attention(&mut copy, workgroups, caps.contractions);
    before.difference(&access::nodes(&copy.body)).copied().collect()
}

/// Whether a loop ends at the variable of another one.
fn has_inner_end(stmt: &Stmt) -> bool {
    let block = std::slice::from_ref(stmt);
    walk::stmts(block)
        .any(|stmt| matches!(stmt, Stmt::For { hi, .. } if !hi.is_constant() && !hi.is_of_symbols()))
}

/// Whether a statement in loops adds a product to an element.
fn adds_products(stmt: &Stmt) -> bool {
    walk::stmts(std::slice::from_ref(stmt))
        .any(|stmt| matches!(stmt, Stmt::Set { value, .. } if multiply_add(value).is_some()))
}
