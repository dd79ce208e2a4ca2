//! Tree reductions: the partial results of threads, and the tree that combines them.
//!
//! Each thread accumulates its elements in increasing order, starting from the neutral element. With
//! vectorized accesses it has one accumulator per lane and combines them like the tree. The tree has steps. A
//! step that halves `n` partial results combines `j` with `j + n/2`. A step that quarters them combines `(j,
//! j + n/2)` and `(j + n/4, j + 3·n/4)` first. Each step writes an array of its own, so that it does not
//! overwrite its input. If the target's subgroup size is known, each subgroup combines its partial results
//! first, and every thread then combines the results of all subgroups in order: one barrier is enough.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, Space, Stmt};
use smallvec::smallvec;
use tnode::Dims;

use crate::analysis::nest;
use crate::analysis::reduction::{combined, neutral, nonzero_neutral};
use crate::gpu::accumulation::ScalarAccumulation;
use crate::gpu::context::{Gpu, element_of};
use crate::gpu::phases::SharedPass;
use crate::gpu::work_distribution::{LoopShare, SharedLoop, distribute_loops};

/// Partial results in shared memory.
pub(crate) struct PartialResults {
    /// Declarations of the arrays, for the top of the workgroup's body.
    pub(crate) declare: Block,
    /// Statements that fill and combine the arrays.
    pub(crate) run: Block,
    /// The array of final results, one per column or subgroup.
    pub(crate) result: LocalId,
    /// The number of subgroups; 1 if the tree spans the workgroup.
    groups: i64,
}

/// An accumulation that threads share along some of its loops, for several neighboring outputs.
pub(crate) struct TreeReduction<'a> {
    pub(crate) chain: &'a ScalarAccumulation,
    /// The loops that threads share, each with a power of two of threads, and the elements in registers.
    pub(crate) pass: &'a SharedPass,
    /// The innermost output loop, with one thread per iteration. Every thread has a partial result of one
    /// column.
    pub(crate) column: Option<SharedLoop>,
    /// Statements that compute the locals which elements read.
    pub(crate) context: Block,
}

impl PartialResults {
    /// Combines the final results with each thread's copy of the accumulator.
    pub(crate) fn take(&self, chain: &ScalarAccumulation, gpu: &mut Gpu) -> Block {
        if self.groups == 1 {
            return vec![chain.take(element_of(self.result, Affine::constant(0)))];
        }
        let (all, declare) = gpu.names.declare(chain.dtype, smallvec![], Space::Register);
        let group = gpu.names.loop_id();
        let mut block = vec![declare];
        block.extend(nonzero_neutral(chain.op, chain.dtype).map(|start| Stmt::set_scalar(all, start)));
        let value = combined(chain.op, Expr::local(all), element_of(self.result, Affine::var(group)));
        let step = vec![Stmt::set_scalar(all, value)];
        block.push(Stmt::looped(group, self.groups, LoopKind::Unrolled, step));
        block.push(chain.take(Expr::local(all)));
        block
    }
}

impl TreeReduction<'_> {
    fn columns(&self) -> i64 {
        self.column.map_or(1, |column| column.threads)
    }

    fn partials(&self) -> i64 {
        self.pass.shared.iter().map(|shared| shared.threads).product()
    }

    /// The number of subgroups that combine their partial results alone; 1 if a subgroup would span columns.
    fn groups(&self, gpu: &Gpu) -> i64 {
        let lanes = i64::from(gpu.workgroups.subgroup_size);
        let in_subgroups = lanes > 1 && self.column.is_none() && self.partials() % lanes == 0;
        if in_subgroups { self.partials() / lanes } else { 1 }
    }

    pub(crate) fn emit(&self, gpu: &mut Gpu) -> PartialResults {
        let (first, declare) = array(gpu, self.chain, self.partials() * self.columns());
        let groups = self.groups(gpu);
        let mut all = PartialResults { declare: vec![declare], run: Block::new(), result: first, groups };
        self.accumulate(first, &mut all, gpu);
        let mut left = self.partials() / groups;
        while left > 1 {
            let width = if left % 4 == 0 { 4 } else { 2 };
            left /= width;
            let (next, declare) = array(gpu, self.chain, groups * left * self.columns());
            all.declare.push(declare);
            let step = ReductionStep { from: all.result, to: next, left, width };
            all.run.extend(if groups > 1 {
                self.subgroup_step(&step, groups, gpu)
            } else {
                self.workgroup_step(&step, gpu)
            });
            all.result = next;
        }
        all
    }

    /// Accumulates the elements of each thread into `partials`.
    fn accumulate(&self, partials: LocalId, all: &mut PartialResults, gpu: &mut Gpu) {
        let loops: Vec<SharedLoop> = self.pass.shared.iter().copied().chain(self.column).collect();
        let shares = distribute_loops(&loops, &mut gpu.names);
        let inner = |share: &LoopShare| share.threads[1..].iter().map(|l| l.hi.limit).collect::<Vec<_>>();
        let Some((whole, rest)) = shares.split_first() else { return };
        if rest.iter().all(|share| inner(share) == inner(whole)) {
            self.accumulate_apart(partials, &shares, all, gpu);
        } else {
            self.accumulate_together(partials, &shares, all, gpu);
        }
    }

    /// Accumulates in registers, then stores into `partials`. The threads of the later shares must be the
    /// first threads of the first share.
    fn accumulate_apart(
        &self,
        partials: LocalId,
        shares: &[LoopShare],
        all: &mut PartialResults,
        gpu: &mut Gpu,
    ) {
        let Some(whole) = shares.first() else { return };
        let run = self.pass.shared.last().map_or(1, |shared| shared.run);
        let lanes = (run > 1).then_some(run);
        let dims: Dims =
            whole.threads.iter().map(|l| l.hi.limit).chain(lanes).map(|dim| dim as usize).collect();
        let (acc, declare) = gpu.names.declare(self.chain.dtype, dims, Space::Thread);
        all.declare.push(declare);
        for (at, share) in shares.iter().enumerate() {
            let place = share.own(lanes.map(|_| share.lane()));
            let mut block = self.context.clone();
            if at == 0 {
                let start = Stmt::SetLocal { local: acc, index: place.clone(), value: self.start() };
                block.extend(gpu.names.refreshed(&share.in_every_lane(vec![start])));
            }
            block.extend(self.accumulation_steps(share, self.chain.step_into(acc, &place)));
            all.run.extend(share.on_threads(share.renumbered(block), &mut gpu.names));
        }
        let own =
            |lane: Option<i64>| Expr::GetLocal { local: acc, index: whole.own(lane.map(Affine::constant)) };
        let each: Vec<Expr> = match lanes {
            None => vec![own(None)],
            Some(run) => (0..run).map(|lane| own(Some(lane))).collect(),
        };
        let Some(value) = self.combined(each) else { return };
        let store = vec![Stmt::SetLocal { local: partials, index: [whole.slot.clone()].into(), value }];
        all.run.extend(whole.on_threads(store, &mut gpu.names));
    }

    /// Stores the partial results into an array after each share, because in the next share another thread
    /// may continue the accumulation. If subgroups combine partial results, these are copied from the array
    /// into `partials`.
    fn accumulate_together(
        &self,
        partials: LocalId,
        shares: &[LoopShare],
        all: &mut PartialResults,
        gpu: &mut Gpu,
    ) {
        let Some(whole) = shares.first().filter(|_| self.groups(gpu) > 1) else {
            return self.accumulate_into(partials, shares, all, gpu);
        };
        let (together, declare) = array(gpu, self.chain, self.partials() * self.columns());
        all.declare.push(declare);
        self.accumulate_into(together, shares, all, gpu);
        let value = element_of(together, whole.slot.clone());
        let store = vec![Stmt::SetLocal { local: partials, index: [whole.slot.clone()].into(), value }];
        all.run.extend(whole.on_threads(store, &mut gpu.names));
    }

    fn accumulate_into(
        &self,
        partials: LocalId,
        shares: &[LoopShare],
        all: &mut PartialResults,
        gpu: &mut Gpu,
    ) {
        for (at, share) in shares.iter().enumerate() {
            let (acc, declare) = gpu.names.declare(self.chain.dtype, smallvec![], Space::Register);
            let place = Indices::from([share.slot.clone()]);
            let start = match at {
                0 => self.start(),
                _ => Expr::GetLocal { local: partials, index: place.clone() },
            };
            let mut block = self.context.clone();
            block.extend([declare, Stmt::set_scalar(acc, start)]);
            block.extend(self.accumulation_steps(share, self.chain.step_into(acc, &Indices::new())));
            block.push(Stmt::SetLocal { local: partials, index: place, value: Expr::local(acc) });
            all.run.extend(share.on_threads(share.renumbered(block), &mut gpu.names));
        }
    }

    fn start(&self) -> Expr {
        neutral(self.chain.op, self.chain.dtype).map_or(Expr::local(self.chain.acc), Expr::Const)
    }

    /// The accumulation of a thread's elements in all steps of a share.
    fn accumulation_steps(&self, share: &LoopShare, step: Stmt) -> Block {
        let is_shared = |var| self.pass.shared.iter().any(|shared| shared.var == var);
        let others: Vec<_> = self.chain.ks.iter().filter(|k| !is_shared(k.var)).cloned().collect();
        let (step, kind) = self.pass.in_registers(share, vec![step]);
        nest::wrap(&others, share.in_every_step(step, kind))
    }

    /// Combines values pairwise, like the tree.
    fn combined(&self, mut each: Vec<Expr>) -> Option<Expr> {
        while each.len() > 1 {
            let upper = each.split_off(each.len() / 2);
            each = each.into_iter().zip(upper).map(|(a, b)| combined(self.chain.op, a, b)).collect();
        }
        each.pop()
    }

    /// The value that a step stores at `place`, where the partial results of one output are `apart` elements
    /// apart.
    fn value(&self, step: &ReductionStep, place: &Affine, apart: i64) -> Option<Expr> {
        let read = |nth: i64| element_of(step.from, place.plus_constant(nth * step.left * apart));
        self.combined((0..step.width).map(read).collect())
    }

    /// A step of the tree that spans the workgroup, column by column.
    fn workgroup_step(&self, step: &ReductionStep, gpu: &mut Gpu) -> Block {
        let columns = self.columns();
        let (at, column) = (gpu.names.loop_id(), gpu.names.loop_id());
        let mut place = Affine::term(at, columns);
        if self.column.is_some() {
            place.add_term(column.into(), 1);
        }
        let Some(value) = self.value(step, &place, columns) else { return Block::new() };
        let store = vec![Stmt::SetLocal { local: step.to, index: [place].into(), value }];
        let body = match self.column {
            Some(_) => vec![Stmt::looped(column, columns, LoopKind::Workgroup, store)],
            None => store,
        };
        noted(vec![Stmt::looped(at, step.left, LoopKind::Workgroup, body)], gpu)
    }

    /// A step of the trees of all subgroups.
    fn subgroup_step(&self, step: &ReductionStep, groups: i64, gpu: &mut Gpu) -> Block {
        let (group, at) = (gpu.names.loop_id(), gpu.names.loop_id());
        let place = |each: i64| Affine::term(group, each).plus(&Affine::var(at));
        let value = self.value(step, &place(step.left * step.width), 1);
        let Some(value) = value else { return Block::new() };
        let store = Stmt::SetLocal { local: step.to, index: [place(step.left)].into(), value };
        let body = vec![Stmt::looped(at, step.left, LoopKind::Workgroup, vec![store])];
        noted(vec![Stmt::looped(group, groups, LoopKind::Workgroup, body)], gpu)
    }
}

/// A step of the tree: for each column or subgroup, `width` elements of `from` are combined into each of the
/// `left` elements of `to`.
struct ReductionStep {
    from: LocalId,
    to: LocalId,
    left: i64,
    width: i64,
}

fn noted(block: Block, gpu: &mut Gpu) -> Block {
    gpu.names.note(&block);
    block
}

fn array(gpu: &mut Gpu, chain: &ScalarAccumulation, len: i64) -> (LocalId, Stmt) {
    gpu.names.declare(chain.dtype, smallvec![len as usize], Space::Workgroup)
}
