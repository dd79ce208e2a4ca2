//! The passes in their order, and the kernels that come out of them.

use crate::analysis::access;
use codegen_core::scheduled::{RoutineParts, ScheduledRoutine};
use codegen_core::{Caps, Codegen, Workgroups};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::passes::regions;
use lowered_ir::passes::runner::{PassRunner, Trace};

use crate::analysis::nodes::is_local;
use crate::analysis::uses::RoutineUses;
use crate::common::expand_scalars::expand_scalars;
use crate::common::groups::serialize_scans;
use crate::common::initialize_locals::initialize_locals;
use crate::common::leave_scans::leave_scans;
use crate::common::make_numerics_explicit::make_numerics_explicit;
use crate::common::normalize_loops::normalize_loops;
use crate::common::partition::{self, partition};
use crate::common::plan_temporaries::plan_temporaries;
use crate::common::propagate_copies::propagate_copies;
use crate::common::propagate_initializers::propagate_initializers;
use crate::common::split_triangles::{Division, split_triangles};
use crate::cpu::block_rows::block_rows;
use crate::cpu::bound_masks::bound_masks;
use crate::cpu::contract_arrays::contract_arrays;
use crate::cpu::fold_storage::{fold_lifetimes, fold_storage};
use crate::cpu::forward_stores::forward_stores;
use crate::cpu::fuse_loops::{fuse_loops, fuse_strips};
use crate::cpu::jam_rows::jam_rows;
use crate::cpu::nest_reductions::nest_reductions;
use crate::cpu::pad_nodes::pad_nodes;
use crate::cpu::pad_operands::pad_operands;
use crate::cpu::parallelize::parallelize;
use crate::cpu::permute_axes::permute_axes;
use crate::cpu::share_locals::share_locals;
use crate::cpu::store_partial_results::store_partial_results;
use crate::cpu::tile_rejected::tile_rejected;
use crate::cpu::transpose_operands::transpose_operands;
use crate::cpu::unroll_short_rows::unroll_short_rows;
use crate::cpu::vectorize::vectorize;
use crate::error::ScheduleError;
use crate::gpu::constant_ends::constant_ends;
use crate::gpu::fuse_attention::fuse_attention;
use crate::gpu::fuse_kernels::fuse_kernels;
use crate::gpu::map_threads::map_threads;
use crate::gpu::promote_registers::promote_registers;
use crate::gpu::reset_schedule::reset_schedule;
use crate::gpu::sink_scalars::sink_scalars;
use crate::gpu::split_products::split_products;
use crate::legalize::{LegalizeError, has_everything, legalize};
use crate::options::ScheduleOptions;

/// The most statements that the copies of a scan's body have on a target with workgroups. A longer scan is
/// one loop there.
const UNROLLED_STATEMENTS: usize = 1 << 16;

/// Rows of the triangles into which CPUs divide larger ones. The target does not matter, not even whether it
/// has vectors: in class `Fast` each part is a reduction of its own, so the division determines bits.
const SMALL_TRIANGLE: i64 = 16;

/// The names under which [`schedule_traced`] and [`schedule_serial`] show passes. The target decides which of
/// them run.
pub const PASS_NAMES: &[&str] = &[
    "leave_scans",
    "unroll_scans",
    "reset_schedule",
    "expand_scalars",
    "initialize_locals",
    "normalize_loops",
    "bound_masks",
    "permute_axes",
    "split_triangles",
    "make_numerics_explicit",
    "propagate_initializers",
    "propagate_copies",
    "transpose_operands",
    "jam_rows",
    "fuse_loops",
    "block_rows",
    "unroll_short_rows",
    "forward_stores",
    "nest_reductions",
    "pad_nodes",
    "pad_operands",
    "vectorize",
    "fuse_strips",
    "fold_storage",
    "contract_arrays",
    "fold_lifetimes",
    "store_partial_results",
    "parallelize",
    "share_locals",
    "serialize_scans",
    "scans_as_loops",
    "split_products",
    "sink_scalars",
    "fuse_attention",
    "fuse_kernels",
    "promote_registers",
    "constant_ends",
    "map_threads",
    "legalize",
];

/// Rewrites the operations that the target lacks, if it lacks any.
fn legalize_for(runner: &mut PassRunner<'_, '_>, caps: &Caps) -> Result<(), LegalizeError> {
    if !has_everything(caps) {
        let legal = legalize(runner.routine(), caps)?;
        runner.run("legalize", |routine| *routine = legal);
    }
    Ok(())
}

/// Runs the pass of this name on each region: calls the function, and reports the pass under the function's
/// name.
macro_rules! in_regions {
    ($runner:ident, $pass:ident $(, $argument:expr)*) => {
        $runner.run_in_regions(stringify!($pass), &mut |region| {
            $pass(region $(, $argument)*);
        })
    };
}

/// Runs the pass of this name on the routine: calls the function, and reports the pass under the function's
/// name.
macro_rules! pass {
    ($runner:ident, $pass:ident $(, $argument:expr)*) => {
        $runner.run(stringify!($pass), |routine| $pass(routine $(, $argument)*))
    };
}

fn unroll_scans(routine: &mut LoweredRoutine) {
    regions::unroll_scans(routine, UNROLLED_STATEMENTS);
}

fn scans_as_loops(routine: &mut LoweredRoutine) {
    regions::scans_as_loops(&mut routine.body);
}

/// Runs the passes for a target without workgroups. The comment above each pass states its postcondition.
fn cpu_pipeline(
    runner: &mut PassRunner<'_, '_>,
    caps: &Caps,
    options: &ScheduleOptions,
) -> Result<RoutineUses, LegalizeError> {
    // Products of all steps that one product can compute are outside of scans.
    pass!(runner, leave_scans);
    let mut uses = RoutineUses::of(runner.routine());
    // Every element of a local node is written before it is read.
    pass!(runner, initialize_locals, &uses);
    // Loops with constant bounds start at 0 and have several iterations.
    in_regions!(runner, normalize_loops);
    // Nests whose masks discard what is beyond a diagonal end there, if one of them is a matmul.
    in_regions!(runner, bound_masks);
    // The last axis of a local node is the one along which most nests walk.
    in_regions!(runner, permute_axes);
    // Nests over large triangles are nests over squares and small triangles.
    in_regions!(runner, split_triangles, &mut uses, &|_| Division::Into(SMALL_TRIANGLE));
    // The order written determines every bit. No later pass changes one.
    in_regions!(runner, make_numerics_explicit, caps);
    // No accumulation reads back the constant that its node was just filled with.
    in_regions!(runner, propagate_initializers, &mut uses);
    // No local node is a copy of another node that its readers could read as well.
    in_regions!(runner, propagate_copies);
    // Products in scans read matrices along their columns, if every step reads the same ones.
    pass!(runner, transpose_operands, caps);
    // A few rows are inside of loops over vectors that they share.
    in_regions!(runner, jam_rows, caps);
    // Neighboring loops that touch the same elements are one loop, where that is legal and pays.
    in_regions!(runner, fuse_loops, caps);
    // Nests around a large local node run on a block of its rows at a time.
    in_regions!(runner, block_rows, caps);
    // Rows shorter than a vector are unrolled, and loops over them are lanes.
    in_regions!(runner, unroll_short_rows, caps, options);
    // No block reads back an element that it stored before.
    in_regions!(runner, forward_stores);
    // A reduction whose results another one reads once is inside of it.
    in_regions!(runner, nest_reductions);
    // Reads outside of local nodes read stored elements, where that pays.
    in_regions!(runner, pad_nodes);
    // Operands of convolutions have no bounds, where a padded copy pays.
    in_regions!(runner, pad_operands, caps);
    // The contiguous axis of each nest is innermost and in vectors. Contractions are left whole for the
    // codegen or split into register tiles.
    in_regions!(runner, vectorize, caps, options);
    // The same as after `fuse_loops` and `forward_stores`, for loops over strips and for vector loops.
    in_regions!(runner, fuse_strips, caps);
    // Two local nodes of one nest share storage if one is dead when the other is written.
    in_regions!(runner, fold_storage);
    // A local node whose elements live for one iteration is a local of that iteration.
    in_regions!(runner, contract_arrays, caps);
    // The same for nodes of several nests: no node is written where another one could be that is dead then.
    in_regions!(runner, fold_lifetimes, options.stack_bytes);
    // A loop worth several threads stores its partial results into a node, so that it can be a kernel.
    in_regions!(runner, store_partial_results, caps, options);
    // Top-level loops with independent iterations and enough work are parallel.
    in_regions!(runner, parallelize, caps, options);
    // No local lives across a parallel loop, so each of these is a kernel.
    in_regions!(runner, share_locals);
    // A scan without parallel loops is a loop on one thread.
    pass!(runner, serialize_scans);
    // Every operation and type is one that the target has.
    legalize_for(runner, caps)?;
    Ok(uses)
}

/// Runs the passes for a target with workgroups. The comment above each pass states its postcondition.
fn gpu_pipeline(
    runner: &mut PassRunner<'_, '_>,
    workgroups: Workgroups,
    caps: &Caps,
) -> Result<RoutineUses, LegalizeError> {
    // Products of all steps that one product can compute are outside of scans.
    pass!(runner, leave_scans);
    // Each step of a scan is a part of the routine.
    pass!(runner, unroll_scans);
    // Every loop is serial, and every local belongs to one thread.
    pass!(runner, reset_schedule);
    // Nests share no locals, only nodes, so each nest can be a kernel of its own.
    pass!(runner, expand_scalars);
    let mut uses = RoutineUses::of(runner.routine());
    // Every element of a local node is written before it is read.
    pass!(runner, initialize_locals, &uses);
    // Loops with constant bounds start at 0 and have several iterations.
    pass!(runner, normalize_loops);
    // Products below a diagonal are products of squares, which threads share in tiles.
    pass!(runner, split_products, &mut uses, caps);
    // The order written determines every bit, except in reductions. `map_threads` orders these.
    pass!(runner, make_numerics_explicit, caps);
    // No accumulation reads back the constant that its node was just filled with.
    pass!(runner, propagate_initializers, &mut uses);
    // No kernel of one thread computes a scalar that a later nest can compute for itself.
    pass!(runner, sink_scalars, workgroups);
    // Attention that the target compiles whole is one nest, without scores in memory.
    pass!(runner, fuse_attention, workgroups, caps.contractions);
    // Neighboring nests are one kernel where enough parallel work is left.
    pass!(runner, fuse_kernels, workgroups);
    // A node that one iteration writes and reads is a register of that iteration.
    pass!(runner, promote_registers);
    // Loops that end where only a run knows have as many iterations as there are at most.
    pass!(runner, constant_ends, workgroups, &mut uses);
    // Every iteration belongs to a thread of a workgroup, and the order written determines every bit.
    pass!(runner, map_threads, workgroups, caps.contractions);
    // Every operation and type is one that the target has.
    legalize_for(runner, caps)?;
    Ok(uses)
}

/// Schedules an optimized, verified routine for a codegen's target: [`schedule_traced`] without an observer.
///
/// # Errors
///
/// [`ScheduleError`].
pub fn schedule(
    routine: &LoweredRoutine,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
) -> Result<ScheduledRoutine, ScheduleError> {
    schedule_traced(routine, codegen, options, &mut Trace::none())
}

/// Schedules an optimized, verified routine for a codegen's target. `trace` sees the routine after each
/// pass, with the name of the pass, one of [`PASS_NAMES`].
///
/// # Errors
///
/// [`ScheduleError::Virtual`] where a virtual node was not inlined, [`ScheduleError::Illegal`] where the
/// target lacks an operation or a type. The other variants are bugs.
pub fn schedule_traced(
    routine: &LoweredRoutine,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
    trace: &mut Trace<'_>,
) -> Result<ScheduledRoutine, ScheduleError> {
    reject_virtual(routine)?;
    let caps = codegen.caps();
    let mut runner = PassRunner::new(routine.clone(), trace);
    let uses = match caps.workgroups {
        None => cpu_pipeline(&mut runner, caps, options)?,
        Some(workgroups) => gpu_pipeline(&mut runner, workgroups, caps)?,
    };
    into_kernels(runner.finish(), &uses, codegen, options, partition::KERNEL_STATEMENTS)
}

/// Makes one kernel of an optimized, verified routine. Only two passes run: local nodes are initialized, and
/// operations that the target lacks are rewritten.
///
/// Nothing is reordered, so every routine has the bits of class `Strict`, and lines are logged in the order
/// written. On a GPU one thread runs the kernel. `trace` sees the routine after each pass, as in
/// [`schedule_traced`].
///
/// # Errors
///
/// [`ScheduleError`], in the same cases as [`schedule_traced`].
pub fn schedule_serial(
    routine: &LoweredRoutine,
    codegen: &dyn Codegen,
    trace: &mut Trace<'_>,
) -> Result<ScheduledRoutine, ScheduleError> {
    reject_virtual(routine)?;
    let caps = codegen.caps();
    let mut runner = PassRunner::new(routine.clone(), trace);
    if caps.workgroups.is_some() {
        pass!(runner, reset_schedule);
    }
    let uses = RoutineUses::of(runner.routine());
    pass!(runner, initialize_locals, &uses);
    pass!(runner, scans_as_loops);
    legalize_for(&mut runner, caps)?;
    let options = ScheduleOptions { stack_bytes: 0, ..ScheduleOptions::default() };
    into_kernels(runner.finish(), &uses, codegen, &options, usize::MAX)
}

/// Partitions a routine into verified kernels and plans its temporaries. Consecutive serial statements are
/// one kernel, or several of about `limit` statements.
fn into_kernels(
    mut routine: LoweredRoutine,
    uses: &RoutineUses,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
    limit: usize,
) -> Result<ScheduledRoutine, ScheduleError> {
    let caps = codegen.caps();
    // Each top-level parallel loop is a kernel. Each call waits for the calls before it.
    let (kernels, mut calls) = partition(&mut routine, uses, caps, options, limit)?;
    // Contractions that the codegen does not compile whole are register tiles.
    let kernels = tile_rejected(kernels, codegen)?;
    // Local nodes are byte ranges of the run's pool, which share bytes where lifetimes are disjoint, or of
    // results that are written later.
    let nodes = routine.nodes;
    let overwritten: Vec<_> = uses.overwritten().filter(|node| !is_local(&nodes[node.index()])).collect();
    let temps = plan_temporaries(&mut calls, &nodes, &overwritten, options.stack_bytes, caps.alignment);
    let (name, symbols) = (routine.name, routine.symbols);
    let parts = RoutineParts { name, symbols, nodes, kernels, calls, temps, overwritten };
    Ok(ScheduledRoutine::new(parts)?)
}

fn reject_virtual(routine: &LoweredRoutine) -> Result<(), ScheduleError> {
    let mentioned = access::nodes(&routine.body);
    match mentioned.into_iter().find(|&node| routine.node(node).mode.known_virtual()) {
        Some(node) => Err(ScheduleError::Virtual {
            routine: routine.name.clone(),
            node,
            name: routine.node(node).name.clone(),
        }),
        None => Ok(()),
    }
}
