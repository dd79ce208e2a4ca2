//! A workgroup per row: reductions by trees of threads, elementwise parts shared out, in one kernel.
//!
//! The independent outer loops of the nest are the workgroups. What stands in their body runs in its order: an accumulation of class
//! `Fast` as a [`Tree`], a nest of independent iterations shared out among the threads, anything that computes locals alike in every
//! thread, and single stores by one thread. A loop that none of these fits stays, with its body done like this.

use lowered_ir::ir::{Block, LoopKind, Stmt};

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::chain::Chain;
use crate::gpu::held::hold;
use crate::gpu::phases::{Pass, Phase, phases};
use crate::gpu::pieces::{Piece, pieces};
use crate::gpu::tree::Tree;
use crate::gpu::{Gpu, parallel, rows};

/// Iterations from which threads share a loop: below, a thread does them faster than threads meet.
pub(crate) const WORTH_SHARING: i64 = 32;
/// Rows from which threads beside each other that each do a row of their own, in steps with the others, fill a GPU.
const MANY_COLUMNS: i64 = 256;

/// Loops of a nest from which it is not worth asking what is independent within some of them.
const DEEP: usize = 8;

/// The nest as a kernel of workgroups, where that is worth it.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (rows, rest) = gpu.independent(nest);
    let body = nest::wrap(&rest, nest.body.clone());
    if !is_worth(gpu, &rows, &body) {
        return None;
    }
    let mut phases = phases(gpu, &rows, &body)?;
    let declare = hold(gpu, &body, &mut phases);
    let mut team = Team { gpu, declare };
    let shared = team.phases(&phases);
    let body: Block = team.declare.into_iter().chain(shared).collect();
    let loops = if rows.is_empty() { vec![gpu.once()] } else { rows };
    let with_rows = parallel(&loops, rows::share(gpu, &body));
    [with_rows, parallel(&loops, body)].into_iter().find(|kernel| gpu.fits(kernel))
}

fn is_worth(gpu: &Gpu, rows: &[Loop], body: &[Stmt]) -> bool {
    let count = rows.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    // Rows are beside each other if what their loops go through is: where only results are, threads beside each other would read memory
    // far apart.
    let loops: Block = body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. })).cloned().collect();
    let columns = rows.iter().any(|row| nest::lane_score(&loops, row.var) > 0);
    widest(gpu, body) >= WORTH_SHARING && !(columns && count >= MANY_COLUMNS)
}

/// The most iterations that some part of a row shares out.
pub(crate) fn widest(gpu: &Gpu, body: &[Stmt]) -> i64 {
    let each = body.iter().map(|stmt| {
        let Stmt::For { body, .. } = stmt else { return 1 };
        if let Some(chain) = Chain::of(stmt, gpu) {
            return if gpu.fast { chain.len() } else { 1 };
        }
        let Some(nest) = Nest::of(stmt) else { return 1 };
        let free = gpu.independent(&nest).0;
        if free.is_empty() {
            // Deep nests are asked once, not at every depth.
            return widest(gpu, if nest.loops.len() > DEEP { &nest.body } else { body });
        }
        free.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul)
    });
    each.max().unwrap_or(1)
}

/// Emits what threads do.
struct Team<'g> {
    gpu: &'g mut Gpu,
    /// Shared arrays and what threads have of their own, declared at the top of the workgroup's body.
    declare: Block,
}

impl Team<'_> {
    /// What all threads do, in order.
    fn phases(&mut self, phases: &[Phase]) -> Block {
        let mut out = Block::new();
        for phase in phases {
            match phase {
                Phase::Reduction(chain, pass) => out.extend(self.reduction(chain, pass)),
                Phase::Map(pass) => out.extend(self.map(pass)),
                Phase::Loop { var, lo, hi, phases } => {
                    let (body, kind) = (self.phases(phases), LoopKind::Serial);
                    out.push(Stmt::For { var: *var, lo: *lo, hi: *hi, kind, body });
                }
                Phase::Stores(stores) => {
                    let thread = self.gpu.names.loop_id();
                    out.push(Stmt::looped(thread, 1, LoopKind::Workgroup, stores.clone()));
                }
                Phase::Alike(block) => out.extend(block.iter().cloned()),
            }
        }
        out
    }

    /// A tree over the chain, whose result every thread then takes into its copy of the accumulator.
    fn reduction(&mut self, chain: &Chain, pass: &Pass) -> Block {
        let mut partials = Tree { chain, pass, column: None, context: Block::new() }.emit(self.gpu);
        self.declare.append(&mut partials.declare);
        let mut out = std::mem::take(&mut partials.run);
        out.extend(partials.take(chain, self.gpu));
        out
    }

    /// Independent iterations, shared out.
    fn map(&mut self, pass: &Pass) -> Block {
        let pieces = pieces(&pass.shared, &mut self.gpu.names);
        let on_threads = |piece: &Piece| {
            let (block, kind) = pass.in_registers(piece, pass.body.clone());
            let block = piece.in_every_round(piece.renumbered(block), kind);
            piece.on_threads(block, &mut self.gpu.names)
        };
        pieces.iter().flat_map(on_threads).collect()
    }
}
