//! Kernel fusion: neighboring nests become one nest, and later one kernel.
//!
//! A fused kernel saves launches and memory traffic, but must leave enough parallel work to fill a GPU. Two
//! nests fuse if the iterations of the result are independent ([`adjacent_loops`]) and
//!
//! * they have the same loops at every depth, so that each thread does more work; or
//! * they work on the same rows, and the rows are many or short: one workgroup computes each row.
//!
//! A contraction fuses only with a nest that follows it elementwise, because its tiles need both of its
//! output loops.

use lowered_ir::ir::{LoweredRoutine, Stmt};
use lowered_ir::passes::cost;

use crate::analysis::nest::{Loop, Nest};
use crate::gpu::accumulation::is_contraction;
use crate::gpu::constant_ends::at_most;
use crate::gpu::context::Gpu;
use crate::gpu::{adjacent_loops, phases};
use codegen_core::caps::Workgroups;

/// Rows that fill a GPU if one workgroup computes each.
const MANY_ROWS: i64 = 1024;
/// Elements of a row that one workgroup computes about as fast as several.
const SHORT_ROW: i64 = 8192;
/// The most work of a thread in such a row, in the units of [`lowered_ir::passes::cost`]. A row with more is
/// long for the threads that share it, though its elements may be few.
const ROW_WORK: u64 = 1 << 13;

/// Fuses neighboring nests.
pub(crate) fn fuse_kernels(routine: &mut LoweredRoutine, workgroups: Workgroups) {
    let gpu = Gpu::of(routine, workgroups);
    adjacent_loops::fuse_where(routine, &|first, second, joined| is_joined(&gpu, first, second, joined));
}

fn is_joined(gpu: &Gpu, first: &Stmt, second: &Stmt, joined: &Stmt) -> bool {
    // What only a run knows counts as the most that it can be.
    let nest = |stmt| Nest::of(&at_most(stmt));
    let (Some(first), Some(second), Some(joined)) = (nest(first), nest(second), nest(joined)) else {
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
    let is_short =
        || phases::widest(gpu, &joined.body) <= SHORT_ROW && work_of_thread(gpu, &joined.body) <= ROW_WORK;
    rest.is_empty() && (count >= MANY_ROWS || is_short())
}

/// The work of a thread, if a workgroup shares each statement among as many threads as that allows.
fn work_of_thread(gpu: &Gpu, body: &[Stmt]) -> u64 {
    let of = |stmt: &Stmt| {
        let stmt = std::slice::from_ref(stmt);
        let threads = gpu.width_for(phases::widest(gpu, stmt)).max(1);
        cost::work(stmt) / threads.unsigned_abs()
    };
    body.iter().map(of).fold(0, u64::saturating_add)
}
