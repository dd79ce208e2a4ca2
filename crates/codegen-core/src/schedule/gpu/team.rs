//! A workgroup per row: reductions by trees of threads, elementwise parts shared out, in one kernel.
//!
//! The independent outer loops of the nest are the workgroups. What stands in their body runs in its order: an accumulation of class
//! `Fast` as a [`Tree`], a nest of independent iterations shared out among the threads, anything that computes locals alike in every
//! thread, and single stores by one thread. A loop that none of these fits stays, with its body done like this.

use lowered_ir::ir::{Block, LoopKind, Stmt, walk};
use tnode::DType;

use super::super::nest::{self, Loop, Nest};
use super::chain::Chain;
use super::held::{self, Held, Pass};
use super::pieces::{Piece, Shared, pieces, power_of_two};
use super::tree::Tree;
use super::{Gpu, parallel, rows, runs};

/// Iterations from which threads share a loop: below, a thread does them faster than threads meet.
pub(super) const WORTH_SHARING: i64 = 32;
/// Rows from which threads beside each other that each do a row of their own, in steps with the others, fill a GPU.
const MANY_COLUMNS: i64 = 256;

/// Threads of a workgroup at most, where it takes so many to hold a row.
const WIDEST: i64 = 1024;
/// Registers that each of them needs for its elements, if more threads help.
const FEW_REGISTERS: i64 = 16;

/// Loops of a nest from which it is not worth asking what is independent within some of them.
const DEEP: usize = 8;

/// The nest as a kernel of workgroups, where that is worth it.
pub(super) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (rows, rest) = gpu.independent(nest);
    let body = nest::wrap(&rest, nest.body.clone());
    if !is_worth(gpu, &rows, &body) {
        return None;
    }
    let (share, passes) = share(gpu, &rows, &body);
    let (held, declare) = Held::of(gpu, &body, &passes);
    let mut team = Team { share, gpu, rows: &rows, held: &held, declare };
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

/// How the threads of a workgroup share loops.
#[derive(Clone, Copy)]
struct Share {
    /// How many threads there are.
    width: i64,
    /// Neighbours in memory that a thread takes together, where they are enough for a group of threads that run in step.
    run: i64,
}

/// How the threads of a workgroup share a body, and what of its statements they share.
fn share(gpu: &Gpu, rows: &[Loop], body: &[Stmt]) -> (Share, Vec<Option<Pass>>) {
    let passes =
        |share: Share| -> Vec<Option<Pass>> { body.iter().map(|stmt| share.pass(gpu, rows, stmt)).collect() };
    let iterations = widest(gpu, body);
    let in_runs = in_runs(gpu, body, iterations).map(|share| (share, passes(share)));
    let has_runs =
        |pass: &Option<Pass>| pass.iter().flat_map(|pass| &pass.shared).any(|shared| shared.run > 1);
    in_runs.filter(|(_, passes)| passes.iter().any(has_runs)).unwrap_or_else(|| {
        let share = Share { width: gpu.width_for(iterations), run: 1 };
        (share, passes(share))
    })
}

/// With runs, if the target has registers for them: with as many threads as it takes to hold a row.
fn in_runs(gpu: &Gpu, body: &[Stmt], iterations: i64) -> Option<Share> {
    let inner = walk::loops_in(body);
    let sizes = runs::sizes(gpu, body, |index| inner.iter().any(|&var| index.mentions(var)));
    let run = runs::length(gpu, &sizes, DType::F64.size_bytes())?;
    let words = sizes.into_iter().max()?.div_ceil(DType::F32.size_bytes()) as i64;
    let most = i64::from(gpu.workgroups.threads).min(WIDEST);
    let registers = held::registers(gpu);
    // With fewer elements each, more threads fit a processor; rows that are too long for that take all the registers there are.
    let threads = iterations.saturating_mul(words) / FEW_REGISTERS.min(registers.max(1));
    let threads = power_of_two(2 * threads.max(1) - 1).min(most);
    let holds = iterations.saturating_mul(words) <= threads.saturating_mul(registers);
    let width = gpu.width_for(iterations / run).max(if holds { threads } else { 1 });
    (registers >= run * words).then_some(Share { width, run })
}

impl Share {
    /// What threads share of a statement.
    fn pass(self, gpu: &Gpu, rows: &[Loop], stmt: &Stmt) -> Option<Pass> {
        if let Some(chain) = Chain::of(stmt, gpu)
            && let Some(shared) = self.chain(gpu, rows, &chain)
        {
            return Some(Pass { shared, body: chain.as_block() });
        }
        let nest = Nest::of(stmt)?;
        let shared = self.map(gpu, &nest);
        (!shared.is_empty()).then_some(Pass { shared, body: nest.body })
    }

    /// The loops of a chain that a tree shares, if it is worth one.
    fn chain(self, gpu: &Gpu, rows: &[Loop], chain: &Chain) -> Option<Vec<Shared>> {
        let shared = self.loops(gpu, &chain.ks, &chain.as_block(), true);
        let threads: i64 = shared.iter().map(|shared| shared.threads).product();
        let sequential = !gpu.fast || chain.is_contraction(rows);
        (!sequential && threads >= 2 && chain.len() >= WORTH_SHARING).then_some(shared)
    }

    /// The independent loops of a nest that threads share.
    fn map(self, gpu: &Gpu, nest: &Nest) -> Vec<Shared> {
        self.loops(gpu, &gpu.independent(nest).0, &nest.body, false)
    }

    /// The loop that moves most accesses by one element, innermost, and if threads are left the longest other one.
    fn loops(self, gpu: &Gpu, loops: &[Loop], body: &[Stmt], powers: bool) -> Vec<Shared> {
        let threads = |extent: i64, most: i64, powers: bool| {
            let threads = extent.min(most);
            if powers { power_of_two(threads) } else { threads }
        };
        let known = loops.iter().filter_map(|l| Some((*l, l.extent()?))).filter(|(_, extent)| *extent > 1);
        let known: Vec<(Loop, i64)> = known.collect();
        let score = |(l, extent): &&(Loop, i64)| (nest::lane_score(body, l.var), *extent);
        let Some(&(lane, extent)) = known.iter().max_by_key(score) else { return Vec::new() };
        let run = self.run_along(gpu, body, lane, extent);
        let inner = threads(extent / run, self.width, powers || run > 1);
        let left = self.width / inner;
        let longest = known.iter().filter(|(l, _)| *l != lane).max_by_key(|(_, extent)| *extent);
        let outer =
            longest.map(|&(l, extent)| Shared::one_by_one(l.var, extent, threads(extent, left, powers)));
        let inner = Shared { var: lane.var, extent, threads: inner, run };
        outer.filter(|outer| outer.threads > 1).into_iter().chain([inner]).collect()
    }

    fn run_along(self, gpu: &Gpu, body: &[Stmt], lane: Loop, extent: i64) -> i64 {
        let is_long = extent >= self.run * i64::from(gpu.workgroups.lanes).max(WORTH_SHARING);
        let fits = self.run > 1 && is_long && extent % self.run == 0;
        let is_wide = runs::is_straight(body) && runs::is_wide(gpu, body, lane.var, self.run);
        if fits && is_wide { self.run } else { 1 }
    }
}

struct Team<'g> {
    gpu: &'g mut Gpu,
    rows: &'g [Loop],
    share: Share,
    held: &'g Held,
    /// Shared arrays and what threads have of their own, declared at the top of the workgroup's body.
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
        let shared = self.share.chain(self.gpu, self.rows, chain)?;
        let tree = Tree { chain, shared, column: None, context: Block::new(), held: self.held };
        let mut partials = tree.emit(self.gpu);
        self.declare.append(&mut partials.declare);
        let mut out = std::mem::take(&mut partials.run);
        out.extend(partials.take(chain, self.gpu));
        Some(out)
    }

    /// Independent iterations, shared out.
    fn map(&mut self, nest: &Nest) -> Option<Block> {
        let (free, rest) = self.gpu.independent(nest);
        let shared = self.share.map(self.gpu, nest);
        if shared.is_empty() {
            return None;
        }
        let is_shared = |l: &Loop| shared.iter().any(|shared| shared.var == l.var);
        let others: Vec<Loop> = free.into_iter().filter(|l| !is_shared(l)).chain(rest).collect();
        let body = nest::wrap(&others, nest.body.clone());
        let pieces = pieces(&shared, &mut self.gpu.names);
        let on_threads = |piece: &Piece| {
            let (block, kind) = self.held.in_registers(&shared, piece, body.clone());
            let block = piece.in_every_round(piece.renumbered(block), kind);
            piece.on_threads(block, &mut self.gpu.names)
        };
        Some(pieces.iter().flat_map(on_threads).collect())
    }
}
