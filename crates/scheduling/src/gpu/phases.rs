//! What the threads of a workgroup do with a body, statement by statement, decided once: what is held in registers, what is staged and
//! what is emitted all go by it.

use lowered_ir::ir::{Block, Bound, LoopId, Stmt, walk};
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::chain::Chain;
use crate::gpu::held::{self, Hold};
use crate::gpu::pieces::{Shared, power_of_two};
use crate::gpu::team::{WORTH_SHARING, widest};
use crate::gpu::{Gpu, runs};

/// Threads of a workgroup at most, where it takes so many to hold a row.
const WIDEST: i64 = 1024;
/// Registers that each of them needs for its elements, if more threads help.
const FEW_REGISTERS: i64 = 16;

/// What threads do with a statement.
pub(crate) enum Phase {
    /// They accumulate elements each, and a tree combines what they have.
    Reduction(Box<Chain>, Pass),
    /// They share out independent iterations.
    Map(Pass),
    /// All of them go through a loop.
    Loop { var: LoopId, lo: i64, hi: Bound, phases: Vec<Phase> },
    /// One of them stores something, or several things behind each other.
    Stores(Block),
    /// Each of them computes the same for itself.
    Alike(Block),
}

/// Loops that threads share.
pub(crate) struct Pass {
    /// The loops, the first outermost.
    pub(crate) shared: Vec<Shared>,
    /// What an iteration of them does.
    pub(crate) body: Block,
    /// What of it is in registers.
    pub(crate) holds: Vec<Hold>,
}

impl Pass {
    /// A pass that finds everything in memory.
    pub(crate) fn new(shared: Vec<Shared>, body: Block) -> Pass {
        Pass { shared, body, holds: Vec::new() }
    }
}

impl Phase {
    /// The loops that threads share here; not those further in.
    pub(crate) fn pass(&self) -> Option<&Pass> {
        match self {
            Phase::Reduction(_, pass) | Phase::Map(pass) => Some(pass),
            Phase::Loop { .. } | Phase::Stores(_) | Phase::Alike(_) => None,
        }
    }

    /// As [`Phase::pass`].
    pub(crate) fn pass_mut(&mut self) -> Option<&mut Pass> {
        match self {
            Phase::Reduction(_, pass) | Phase::Map(pass) => Some(pass),
            Phase::Loop { .. } | Phase::Stores(_) | Phase::Alike(_) => None,
        }
    }
}

/// The phases of a workgroup's body; none where something of it does not fit.
pub(crate) fn phases(gpu: &Gpu, rows: &[Loop], body: &[Stmt]) -> Option<Vec<Phase>> {
    let iterations = widest(gpu, body);
    let has_runs = |phases: &Vec<Phase>| {
        phases.iter().filter_map(Phase::pass).flat_map(|pass| &pass.shared).any(|shared| shared.run > 1)
    };
    let in_runs = in_runs(gpu, body, iterations).and_then(|share| share.phases(gpu, rows, body));
    in_runs.filter(has_runs).or_else(|| {
        let share = Share { width: gpu.width_for(iterations), run: 1 };
        share.phases(gpu, rows, body)
    })
}

/// How the threads of a workgroup share loops.
#[derive(Clone, Copy)]
struct Share {
    /// How many threads there are.
    width: i64,
    /// Neighbours in memory that a thread takes together, where they are enough for a group of threads that run in step.
    run: i64,
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
    /// What threads do, in order.
    fn phases(self, gpu: &Gpu, rows: &[Loop], block: &[Stmt]) -> Option<Vec<Phase>> {
        let mut phases = Vec::new();
        for stmt in block {
            let mut phase = self.phase(gpu, rows, stmt)?;
            if let (Phase::Stores(stores), Some(Phase::Stores(before))) = (&mut phase, phases.last_mut()) {
                before.append(stores);
            } else {
                phases.push(phase);
            }
        }
        Some(phases)
    }

    fn phase(self, gpu: &Gpu, rows: &[Loop], stmt: &Stmt) -> Option<Phase> {
        match stmt {
            Stmt::For { .. } => self.looped(gpu, rows, stmt),
            Stmt::Set { .. } | Stmt::SetDynamic { .. } => Some(Phase::Stores(vec![stmt.clone()])),
            Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_) => {
                Some(Phase::Alike(vec![stmt.clone()]))
            }
            Stmt::Zero { .. } | Stmt::Log { .. } => None,
        }
    }

    fn looped(self, gpu: &Gpu, rows: &[Loop], stmt: &Stmt) -> Option<Phase> {
        if let Some(chain) = Chain::of(stmt, gpu)
            && let Some(shared) = self.chain(gpu, rows, &chain)
        {
            let pass = Pass::new(shared, chain.as_block());
            return Some(Phase::Reduction(Box::new(chain), pass));
        }
        if let Some(pass) = Nest::of(stmt).and_then(|nest| self.map(gpu, &nest)) {
            return Some(Phase::Map(pass));
        }
        let Stmt::For { var, lo, hi, body, .. } = stmt else { return None };
        let phases = self.phases(gpu, rows, body)?;
        Some(Phase::Loop { var: *var, lo: *lo, hi: *hi, phases })
    }

    /// The loops of a chain that a tree shares, if it is worth one.
    fn chain(self, gpu: &Gpu, rows: &[Loop], chain: &Chain) -> Option<Vec<Shared>> {
        let shared = self.loops(gpu, &chain.ks, &chain.as_block(), true);
        let threads: i64 = shared.iter().map(|shared| shared.threads).product();
        let sequential = !gpu.fast || chain.is_contraction(rows);
        (!sequential && threads >= 2 && chain.len() >= WORTH_SHARING).then_some(shared)
    }

    /// The independent iterations of a nest, if threads share some; the other loops are in the body.
    fn map(self, gpu: &Gpu, nest: &Nest) -> Option<Pass> {
        let (free, rest) = gpu.independent(nest);
        let shared = self.loops(gpu, &free, &nest.body, false);
        let is_shared = |l: &Loop| shared.iter().any(|shared| shared.var == l.var);
        let others: Vec<Loop> = free.into_iter().filter(|l| !is_shared(l)).chain(rest).collect();
        let body = nest::wrap(&others, nest.body.clone());
        (!shared.is_empty()).then(|| Pass::new(shared, body))
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
