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

use crate::analysis::nest::{Loop, Nest};
use crate::gpu::accumulation::is_contraction;
use crate::gpu::context::Gpu;
use crate::gpu::{adjacent_loops, phases};
use codegen_core::caps::Workgroups;

/// Rows that fill a GPU if one workgroup computes each.
const MANY_ROWS: i64 = 1024;
/// Elements of a row that one workgroup computes about as fast as several.
const SHORT_ROW: i64 = 8192;

/// Fuses neighboring nests.
pub(crate) fn fuse_kernels(routine: &mut LoweredRoutine, workgroups: Workgroups) {
    let gpu = Gpu::of(routine, workgroups);
    adjacent_loops::fuse_where(routine, &|first, second, joined| is_joined(&gpu, first, second, joined));
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
    rest.is_empty() && (count >= MANY_ROWS || phases::widest(gpu, &joined.body) <= SHORT_ROW)
}
