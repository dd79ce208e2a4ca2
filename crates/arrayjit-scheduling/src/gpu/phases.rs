//! The phases of a row: how the threads of a workgroup share each statement of its body.
//!
//! The decision is made once. Register caching, shared memory and code all follow it.

use lowered_ir::ir::{Block, Bound, Indices, LocalId, LoopId, NodeRef, Stmt, walk};
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::accumulation::ScalarAccumulation;
use crate::gpu::context::Gpu;
use crate::gpu::context::power_of_two;
use crate::gpu::vector_access;
use crate::gpu::work_distribution::SharedLoop;

/// The fewest iterations that threads share: one thread runs fewer than these in less time than a barrier
/// takes.
pub(crate) const WORTH_SHARING: i64 = 32;
/// Nests with more loops than this are examined as a whole, without their inner nests.
const DEEP: usize = 8;

/// The most threads of a workgroup that caches a row in registers.
const WIDEST: i64 = 1024;
/// Registers of a thread that hold row elements, unless the row needs more.
const FEW_REGISTERS: i64 = 16;

/// An element that a pass keeps in a register.
pub(crate) struct RegisterElement {
    pub(crate) node: NodeRef,
    pub(crate) index: Indices,
    pub(crate) local: LocalId,
    /// Whether the pass loads it from memory first.
    pub(crate) loads: bool,
}

/// The registers of a thread that may cache row elements.
pub(crate) fn registers(gpu: &Gpu) -> i64 {
    // The others hold values under computation and elements on their way from memory.
    i64::from(gpu.workgroups.registers / 4)
}

/// How threads run one statement of a row.
pub(crate) enum RowPhase {
    /// Each thread accumulates a part of the elements; a tree reduction combines the partial results.
    Reduction(Box<ScalarAccumulation>, SharedPass),
    /// Threads share independent iterations.
    Map(SharedPass),
    /// Every thread runs a loop.
    Loop { var: LoopId, lo: i64, hi: Bound, phases: Vec<RowPhase> },
    /// One thread stores one or more elements.
    Stores(Block),
    /// Every thread computes the same values redundantly.
    Redundant(Block),
}

/// A pass over a row: loops that threads share, and their body.
pub(crate) struct SharedPass {
    /// The shared loops, the first outermost.
    pub(crate) shared: Vec<SharedLoop>,
    pub(crate) body: Block,
    /// Elements of the body that are register-resident.
    pub(crate) cached: Vec<RegisterElement>,
}

impl SharedPass {
    /// A pass that reads and writes memory only.
    pub(crate) fn new(shared: Vec<SharedLoop>, body: Block) -> SharedPass {
        SharedPass { shared, body, cached: Vec::new() }
    }
}

impl RowPhase {
    /// The pass of this phase. Passes of phases inside a loop are not included.
    pub(crate) fn pass(&self) -> Option<&SharedPass> {
        match self {
            RowPhase::Reduction(_, pass) | RowPhase::Map(pass) => Some(pass),
            RowPhase::Loop { .. } | RowPhase::Stores(_) | RowPhase::Redundant(_) => None,
        }
    }

    /// Like [`RowPhase::pass`], but returns a mutable reference.
    pub(crate) fn pass_mut(&mut self) -> Option<&mut SharedPass> {
        match self {
            RowPhase::Reduction(_, pass) | RowPhase::Map(pass) => Some(pass),
            RowPhase::Loop { .. } | RowPhase::Stores(_) | RowPhase::Redundant(_) => None,
        }
    }
}

/// Divides the body of a workgroup into phases. Returns none if the body contains a statement that no phase
/// can express.
pub(crate) fn phases(gpu: &Gpu, rows: &[Loop], body: &[Stmt]) -> Option<Vec<RowPhase>> {
    let iterations = widest(gpu, body);
    let has_runs = |phases: &Vec<RowPhase>| {
        phases.iter().filter_map(RowPhase::pass).flat_map(|pass| &pass.shared).any(|shared| shared.run > 1)
    };
    let in_runs = in_runs(gpu, body, iterations).and_then(|share| share.phases(gpu, rows, body));
    in_runs.filter(has_runs).or_else(|| {
        let share = RowSharing { width: gpu.width_for(iterations), run: 1 };
        share.phases(gpu, rows, body)
    })
}

/// The most iterations that threads could share in some part of a row.
pub(crate) fn widest(gpu: &Gpu, body: &[Stmt]) -> i64 {
    let each = body.iter().map(|stmt| {
        let Stmt::For { body, .. } = stmt else { return 1 };
        if let Some(chain) = ScalarAccumulation::of(stmt, gpu) {
            return if gpu.fast { chain.len() } else { 1 };
        }
        let Some(nest) = Nest::of(stmt) else { return 1 };
        let free = gpu.independent(&nest).0;
        if free.is_empty() {
            // Deep nests are examined once, not again at every depth.
            return widest(gpu, if nest.loops.len() > DEEP { &nest.body } else { body });
        }
        free.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul)
    });
    each.max().unwrap_or(1)
}

/// How the threads of a workgroup share the loops of a row.
#[derive(Clone, Copy)]
struct RowSharing {
    /// Threads of the workgroup.
    width: i64,
    /// Neighboring elements that a thread takes together: a run. Loops too short to give every lane of a
    /// subgroup a run are shared element by element.
    run: i64,
}

/// Sharing by vectorized accesses, if the target has registers for them. If the registers of a large enough
/// workgroup can hold a row, the workgroup has at least as many threads as that needs.
fn in_runs(gpu: &Gpu, body: &[Stmt], iterations: i64) -> Option<RowSharing> {
    let inner = walk::loops_in(body);
    let sizes = vector_access::sizes(gpu, body, |index| inner.iter().any(|&var| index.mentions(var)));
    let run = vector_access::length(gpu, &sizes, DType::F64.size_bytes())?;
    let words = sizes.into_iter().max()?.div_ceil(DType::F32.size_bytes()) as i64;
    let most = i64::from(gpu.workgroups.threads).min(WIDEST);
    let registers = registers(gpu);
    // With fewer elements per thread, more threads fit on an SM. A row too long for so few elements uses all
    // registers of each thread.
    let threads = iterations.saturating_mul(words) / FEW_REGISTERS.min(registers.max(1));
    let threads = power_of_two(2 * threads.max(1) - 1).min(most);
    let cached = iterations.saturating_mul(words) <= threads.saturating_mul(registers);
    let width = gpu.width_for(iterations / run).max(if cached { threads } else { 1 });
    (registers >= run * words).then_some(RowSharing { width, run })
}

impl RowSharing {
    /// The phases of a block, in order. Consecutive stores are one phase.
    fn phases(self, gpu: &Gpu, rows: &[Loop], block: &[Stmt]) -> Option<Vec<RowPhase>> {
        let mut phases = Vec::new();
        for stmt in block {
            let mut phase = self.phase(gpu, rows, stmt)?;
            if let (RowPhase::Stores(stores), Some(RowPhase::Stores(before))) =
                (&mut phase, phases.last_mut())
            {
                before.append(stores);
            } else {
                phases.push(phase);
            }
        }
        Some(phases)
    }

    fn phase(self, gpu: &Gpu, rows: &[Loop], stmt: &Stmt) -> Option<RowPhase> {
        match stmt {
            Stmt::For { .. } => self.looped(gpu, rows, stmt),
            Stmt::Set { .. } | Stmt::SetDynamic { .. } => Some(RowPhase::Stores(vec![stmt.clone()])),
            Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_) => {
                Some(RowPhase::Redundant(vec![stmt.clone()]))
            }
            Stmt::Zero { .. } | Stmt::Log { .. } => None,
        }
    }

    fn looped(self, gpu: &Gpu, rows: &[Loop], stmt: &Stmt) -> Option<RowPhase> {
        if let Some(chain) = ScalarAccumulation::of(stmt, gpu)
            && let Some(shared) = self.chain(gpu, rows, &chain)
        {
            let pass = SharedPass::new(shared, chain.as_block());
            return Some(RowPhase::Reduction(Box::new(chain), pass));
        }
        if let Some(pass) = Nest::of(stmt).and_then(|nest| self.map(gpu, &nest)) {
            return Some(RowPhase::Map(pass));
        }
        let Stmt::For { var, lo, hi, body, .. } = stmt else { return None };
        let phases = self.phases(gpu, rows, body)?;
        Some(RowPhase::Loop { var: *var, lo: *lo, hi: hi.clone(), phases })
    }

    /// The loops of an accumulation that threads share, if a tree reduction is legal and worth its barriers.
    fn chain(self, gpu: &Gpu, rows: &[Loop], chain: &ScalarAccumulation) -> Option<Vec<SharedLoop>> {
        let shared = self.loops(gpu, &chain.ks, &chain.as_block(), true);
        let threads: i64 = shared.iter().map(|shared| shared.threads).product();
        let sequential = !gpu.fast || chain.is_contraction(rows);
        (!sequential && threads >= 2 && chain.len() >= WORTH_SHARING).then_some(shared)
    }

    /// A pass over the independent iterations of a nest, if threads share some loop. The other loops become
    /// part of the body.
    fn map(self, gpu: &Gpu, nest: &Nest) -> Option<SharedPass> {
        let (free, rest) = gpu.independent(nest);
        let shared = self.loops(gpu, &free, &nest.body, false);
        let is_shared = |l: &Loop| shared.iter().any(|shared| shared.var == l.var);
        let others: Vec<Loop> = free.into_iter().filter(|l| !is_shared(l)).chain(rest).collect();
        let body = nest::wrap(&others, nest.body.clone());
        (!shared.is_empty()).then(|| SharedPass::new(shared, body))
    }

    /// The loops that threads share. The innermost is the loop that makes most accesses contiguous. If
    /// threads are left for it, the longest other loop is shared too. With `powers`, each loop gets a power
    /// of two of threads.
    fn loops(self, gpu: &Gpu, loops: &[Loop], body: &[Stmt], powers: bool) -> Vec<SharedLoop> {
        let threads = |extent: i64, most: i64, powers: bool| {
            let threads = extent.min(most);
            if powers { power_of_two(threads) } else { threads }
        };
        let known =
            loops.iter().filter_map(|l| Some((l.clone(), l.extent()?))).filter(|(_, extent)| *extent > 1);
        let known: Vec<(Loop, i64)> = known.collect();
        let score = |(l, extent): &&(Loop, i64)| (nest::lane_score(body, l.var, &gpu.names), *extent);
        let Some((lane, extent)) = known.iter().max_by_key(score) else { return Vec::new() };
        let run = self.run_along(gpu, body, lane, *extent);
        let inner = threads(extent / run, self.width, powers || run > 1);
        let left = self.width / inner;
        let longest = known.iter().filter(|(l, _)| l != lane).max_by_key(|(_, extent)| *extent);
        let outer =
            longest.map(|(l, extent)| SharedLoop::one_by_one(l.var, *extent, threads(*extent, left, powers)));
        let inner = SharedLoop { var: lane.var, extent: *extent, threads: inner, run };
        outer.filter(|outer| outer.threads > 1).into_iter().chain([inner]).collect()
    }

    fn run_along(self, gpu: &Gpu, body: &[Stmt], lane: &Loop, extent: i64) -> i64 {
        let is_long = extent >= self.run * i64::from(gpu.workgroups.subgroup_size).max(WORTH_SHARING);
        let fits = self.run > 1 && is_long && extent % self.run == 0;
        let is_wide =
            vector_access::is_straight(body) && vector_access::is_wide(gpu, body, lane.var, self.run);
        if fits && is_wide { self.run } else { 1 }
    }
}
