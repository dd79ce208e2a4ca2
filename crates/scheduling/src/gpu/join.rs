//! Which neighbouring nests become one kernel.
//!
//! Fewer kernels mean fewer launches and less memory traffic, but what they share must leave enough for a GPU to do at once. Two nests
//! join if their iterations are independent ([`fuse`]) and
//!
//! * both have the same loops all the way in, so that every thread does a little more; or
//! * they are operations on the same rows, and rows are many or short: a workgroup does each.
//!
//! A contraction joins only what follows it element by element: its tiles want both of its loops.

use lowered_ir::ir::{Routine, Stmt};

use crate::analysis::nest::{Loop, Nest};
use crate::fuse;
use crate::gpu::chain::is_contraction;
use crate::gpu::{Gpu, sink, team};
use codegen_core::caps::Workgroups;

/// Rows that fill a GPU with a workgroup each.
const MANY_ROWS: i64 = 1024;
/// Elements of a row that one workgroup does about as soon as many would.
const SHORT_ROW: i64 = 8192;

/// Fuses neighbouring nests, after moving the scalars that they share into them.
pub(crate) fn join(routine: &mut Routine, workgroups: Workgroups) {
    let mut gpu = Gpu::of(routine, workgroups);
    sink::sink(routine, &mut gpu);
    fuse::fuse_where(routine, &|first, second, joined| is_joined(&gpu, first, second, joined));
}

fn is_joined(gpu: &Gpu, first: &Stmt, second: &Stmt, joined: &Stmt) -> bool {
    let (Some(first), Some(second), Some(joined)) = (Nest::of(first), Nest::of(second), Nest::of(joined))
    else {
        return false;
    };
    let depth = joined.loops.len();
    let straight = |nest: &Nest| !nest.body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }));
    if is_contraction(&first, gpu) || is_contraction(&second, gpu) {
        let same_loops = depth == first.loops.len() && depth == second.loops.len();
        return same_loops && is_contraction(&first, gpu) && straight(&second);
    }
    if straight(&joined) {
        return true;
    }
    let (rows, rest) = gpu.independent(&joined);
    let count = rows.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    rest.is_empty() && (count >= MANY_ROWS || team::widest(gpu, &joined.body) <= SHORT_ROW)
}
