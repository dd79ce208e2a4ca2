//! A workgroup per row: reductions by trees of threads, elementwise parts shared out, in one kernel.
//!
//! The independent outer loops of the nest are the workgroups. What stands in their body runs in its order: an accumulation of class
//! `Fast` as a [`Tree`], a nest of independent iterations shared out among the threads, anything that computes locals alike in every
//! thread, and single stores by one thread. A loop that none of these fits stays, with its body done like this.

use lowered_ir::ir::{Affine, Block, LoopKind, Stmt};

use super::super::nest::{self, Loop, Nest};
use super::chain::Chain;
use super::pieces::{Piece, Shared, pieces, power_of_two};
use super::tree::Tree;
use super::{Gpu, element_of, parallel, rows};

/// Iterations from which threads share a loop: below, a thread does them faster than threads meet.
pub(super) const WORTH_SHARING: i64 = 32;
/// Rows from which threads beside each other that each do a row of their own, in steps with the others, fill a GPU.
const MANY_COLUMNS: i64 = 256;

/// Loops of a nest from which it is not worth asking what is independent within some of them.
const DEEP: usize = 8;

/// The nest as a kernel of workgroups, where that is worth it.
pub(super) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (rows, rest) = gpu.independent(nest);
    let body = nest::wrap(&rest, nest.body.clone());
    if !is_worth(gpu, &rows, &body) {
        return None;
    }
    let width = gpu.width_for(widest(gpu, &body));
    let mut team = Team { width, gpu, rows: &rows, declare: Block::new() };
    let shared = team.block(&body)?;
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
pub(super) fn widest(gpu: &Gpu, body: &[Stmt]) -> i64 {
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

struct Team<'g> {
    gpu: &'g mut Gpu,
    rows: &'g [Loop],
    /// Threads of the workgroup.
    width: i64,
    /// Shared arrays, declared at the top of the workgroup's body.
    declare: Block,
}

impl Team<'_> {
    /// What all threads do, in order; none where something does not fit.
    fn block(&mut self, block: &[Stmt]) -> Option<Block> {
        let mut out = Block::new();
        for stmt in block {
            match stmt {
                Stmt::For { .. } => out.extend(self.looped(stmt)?),
                Stmt::Set { .. } | Stmt::SetDynamic { .. } => self.single(stmt, &mut out),
                Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_) => out.push(stmt.clone()),
                Stmt::Zero { .. } | Stmt::Log { .. } => return None,
            }
        }
        Some(out)
    }

    /// A store by one thread, together with the one before.
    fn single(&mut self, stmt: &Stmt, out: &mut Block) {
        if let Some(Stmt::For { hi, kind: LoopKind::Workgroup, body, .. }) = out.last_mut()
            && hi.limit == 1
        {
            body.push(stmt.clone());
            return;
        }
        let thread = self.gpu.names.loop_id();
        out.push(Stmt::looped(thread, 1, LoopKind::Workgroup, vec![stmt.clone()]));
    }

    fn looped(&mut self, stmt: &Stmt) -> Option<Block> {
        if let Some(chain) = Chain::of(stmt, self.gpu)
            && let Some(reduced) = self.reduction(&chain)
        {
            return Some(reduced);
        }
        if let Some(nest) = Nest::of(stmt)
            && let Some(map) = self.map(&nest)
        {
            return Some(map);
        }
        let Stmt::For { var, lo, hi, body, .. } = stmt else { return None };
        let body = self.block(body)?;
        Some(vec![Stmt::For { var: *var, lo: *lo, hi: *hi, kind: LoopKind::Serial, body }])
    }

    /// A tree over the chain, whose result every thread then takes into its copy of the accumulator.
    fn reduction(&mut self, chain: &Chain) -> Option<Block> {
        let shared = self.shared(&chain.ks, &chain.as_block(), true);
        let threads: i64 = shared.iter().map(|shared| shared.threads).product();
        let sequential = !self.gpu.fast || chain.is_contraction(self.rows);
        if sequential || threads < 2 || chain.len() < WORTH_SHARING {
            return None;
        }
        let tree = Tree { chain, shared, column: None, context: Block::new() };
        let partials = tree.emit(self.gpu);
        self.declare.extend(partials.declare);
        let mut out = partials.run;
        out.push(chain.take(element_of(partials.result, Affine::constant(0))));
        Some(out)
    }

    /// Independent iterations, shared out.
    fn map(&mut self, nest: &Nest) -> Option<Block> {
        let (free, rest) = self.gpu.independent(nest);
        let shared = self.shared(&free, &nest.body, false);
        if shared.is_empty() {
            return None;
        }
        let is_shared = |l: &Loop| shared.iter().any(|shared| shared.var == l.var);
        let others: Vec<Loop> = free.into_iter().filter(|l| !is_shared(l)).chain(rest).collect();
        let body = nest::wrap(&others, nest.body.clone());
        let pieces = pieces(&shared, &mut self.gpu.names);
        let on_threads = |piece: &Piece| {
            let block = piece.in_every_round(piece.renumbered(body.clone()));
            piece.on_threads(block, &mut self.gpu.names)
        };
        Some(pieces.iter().flat_map(on_threads).collect())
    }

    /// The loop that moves most accesses by one element, innermost, and if threads are left the longest other one.
    fn shared(&self, loops: &[Loop], body: &[Stmt], powers: bool) -> Vec<Shared> {
        let threads = |extent: i64, most: i64| {
            let threads = extent.min(most);
            if powers { power_of_two(threads) } else { threads }
        };
        let known = loops.iter().filter_map(|l| Some((*l, l.extent()?))).filter(|(_, extent)| *extent > 1);
        let known: Vec<(Loop, i64)> = known.collect();
        let score = |(l, extent): &&(Loop, i64)| (nest::lane_score(body, l.var), *extent);
        let Some(&(lane, extent)) = known.iter().max_by_key(score) else { return Vec::new() };
        let inner = Shared { var: lane.var, extent, threads: threads(extent, self.width) };
        let left = self.width / inner.threads;
        let longest = known.iter().filter(|(l, _)| *l != lane).max_by_key(|(_, extent)| *extent);
        let outer = longest.map(|&(l, extent)| Shared { var: l.var, extent, threads: threads(extent, left) });
        outer.filter(|outer| outer.threads > 1).into_iter().chain([inner]).collect()
    }
}
