//! Cooperative reductions: one workgroup per row, with tree reductions and shared elementwise passes in one
//! kernel.
//!
//! The independent outer loops of the nest are the workgroups. The statements of the body run in order: an
//! accumulation of class `Fast` is a [`TreeReduction`], the threads share a nest of independent iterations,
//! every thread computes locals for itself, and one thread runs single stores. Any other loop stays a loop,
//! and its body is mapped in the same way.

use lowered_ir::ir::{Block, LoopKind, Stmt};

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::accumulation::ScalarAccumulation;
use crate::gpu::context::{Gpu, parallel};
use crate::gpu::phases::{RowPhase, SharedPass, WORTH_SHARING, phases, widest};
use crate::gpu::register_rows::cache_rows;
use crate::gpu::shared_rows;
use crate::gpu::tree_reduction::TreeReduction;
use crate::gpu::work_distribution::{LoopShare, distribute_loops};

/// Rows that fill a GPU with one thread each, if neighboring rows are contiguous.
const MANY_COLUMNS: i64 = 256;

/// Maps a nest to a kernel of workgroups, where that pays.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (rows, rest) = gpu.independent(nest);
    let body = nest::wrap(&rest, nest.body.clone());
    if !is_worth(gpu, &rows, &body) {
        return None;
    }
    let mut phases = phases(gpu, &rows, &body)?;
    let declare = cache_rows(gpu, &body, &mut phases);
    let mut team = WorkgroupEmitter { gpu, declare };
    let shared = team.phases(&phases);
    let body: Block = team.declare.into_iter().chain(shared).collect();
    let loops = if rows.is_empty() { vec![gpu.once()] } else { rows };
    let with_rows = parallel(&loops, shared_rows::share(gpu, &body));
    [with_rows, parallel(&loops, body)].into_iter().find(|kernel| gpu.fits(kernel))
}

fn is_worth(gpu: &Gpu, rows: &[Loop], body: &[Stmt]) -> bool {
    let count = rows.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    // Rows count as contiguous if the data that their loops read is contiguous. If only the results are
    // contiguous, neighboring threads would read memory far apart.
    let loops: Block = body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. })).cloned().collect();
    let columns = rows.iter().any(|row| nest::lane_score(&loops, row.var, &gpu.names) > 0);
    widest(gpu, body) >= WORTH_SHARING && !(columns && count >= MANY_COLUMNS)
}

/// Writes the statements of all threads.
struct WorkgroupEmitter<'g> {
    gpu: &'g mut Gpu,
    /// Declarations of shared arrays and of per-thread locals, for the top of the workgroup's body.
    declare: Block,
}

impl WorkgroupEmitter<'_> {
    /// The statements of some phases, in order.
    fn phases(&mut self, phases: &[RowPhase]) -> Block {
        let mut out = Block::new();
        for phase in phases {
            match phase {
                RowPhase::Reduction(chain, pass) => out.extend(self.reduction(chain, pass)),
                RowPhase::Map(pass) => out.extend(self.map(pass)),
                RowPhase::Loop { var, lo, hi, phases } => {
                    let (body, kind) = (self.phases(phases), LoopKind::Serial);
                    out.push(Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind, body });
                }
                RowPhase::Stores(stores) => {
                    let thread = self.gpu.names.loop_id();
                    out.push(Stmt::looped(thread, 1, LoopKind::Workgroup, stores.clone()));
                }
                RowPhase::Redundant(block) => out.extend(block.iter().cloned()),
            }
        }
        out
    }

    /// A tree reduction, whose result every thread combines with its copy of the accumulator.
    fn reduction(&mut self, chain: &ScalarAccumulation, pass: &SharedPass) -> Block {
        let mut partials = TreeReduction { chain, pass, column: None, context: Block::new() }.emit(self.gpu);
        self.declare.append(&mut partials.declare);
        let mut out = std::mem::take(&mut partials.run);
        out.extend(partials.take(chain, self.gpu));
        out
    }

    /// Independent iterations, distributed over the threads.
    fn map(&mut self, pass: &SharedPass) -> Block {
        let shares = distribute_loops(&pass.shared, &mut self.gpu.names);
        let on_threads = |share: &LoopShare| {
            let (block, kind) = pass.in_registers(share, pass.body.clone());
            let block = share.in_every_step(share.renumbered(block), kind);
            share.on_threads(block, &mut self.gpu.names)
        };
        shares.iter().flat_map(on_threads).collect()
    }
}
