//! Partial results of threads, and the tree that combines them.
//!
//! Each thread accumulates its elements in increasing order from the neutral element of the operation; with runs of neighbours it has an
//! accumulator for each place in a run, and combines them as the tree does. Partials are combined in rounds:
//! of `n`, result `j` takes in `j + n/2`, in a round of four `(j, j + n/2)` and `(j + n/4, j + 3·n/4)`, those two then. Each round has
//! an array of its own: what a round reads, it does not write. Where threads are known to run in step, they are combined group by group,
//! and then every thread takes in the groups' results in order: threads meet once.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, Space, Stmt};
use smallvec::smallvec;
use tnode::Dims;

use crate::analysis::nest;
use crate::gpu::chain::Chain;
use crate::gpu::phases::Pass;
use crate::gpu::pieces::{Piece, Shared, pieces};
use crate::gpu::{Gpu, element_of};
use crate::numerics::{combined, neutral, nonzero_neutral};

/// Partial results in shared memory.
pub(crate) struct Partials {
    /// What declares the arrays, in the workgroup's body.
    pub(crate) declare: Block,
    /// What fills and combines them.
    pub(crate) run: Block,
    /// The array of results, one per column or group.
    pub(crate) result: LocalId,
    /// How many groups there are.
    groups: i64,
}

/// A chain shared out along some of its loops, for `columns` outputs beside each other.
pub(crate) struct Tree<'a> {
    pub(crate) chain: &'a Chain,
    /// The chain's loops that threads share, powers of two of them, and what of the elements is in registers.
    pub(crate) pass: &'a Pass,
    /// An output loop with a thread per iteration, the innermost; every thread has a partial per column.
    pub(crate) column: Option<Shared>,
    /// What the elements need to be computed.
    pub(crate) context: Block,
}

impl Partials {
    /// Every thread takes the results into its copy of the accumulator.
    pub(crate) fn take(&self, chain: &Chain, gpu: &mut Gpu) -> Block {
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

impl Tree<'_> {
    fn columns(&self) -> i64 {
        self.column.map_or(1, |column| column.threads)
    }

    fn partials(&self) -> i64 {
        self.pass.shared.iter().map(|shared| shared.threads).product()
    }

    /// Groups of threads that run in step, none of which has several columns.
    fn groups(&self, gpu: &Gpu) -> i64 {
        let lanes = i64::from(gpu.workgroups.lanes);
        let in_step = lanes > 1 && self.column.is_none() && self.partials() % lanes == 0;
        if in_step { self.partials() / lanes } else { 1 }
    }

    pub(crate) fn emit(&self, gpu: &mut Gpu) -> Partials {
        let (first, declare) = array(gpu, self.chain, self.partials() * self.columns());
        let groups = self.groups(gpu);
        let mut all = Partials { declare: vec![declare], run: Block::new(), result: first, groups };
        self.accumulate(first, &mut all, gpu);
        let mut left = self.partials() / groups;
        while left > 1 {
            let width = if left % 4 == 0 { 4 } else { 2 };
            left /= width;
            let (next, declare) = array(gpu, self.chain, groups * left * self.columns());
            all.declare.push(declare);
            let round = Round { from: all.result, to: next, left, width };
            all.run.extend(if groups > 1 {
                self.grouped_round(&round, groups, gpu)
            } else {
                self.round(&round, gpu)
            });
            all.result = next;
        }
        all
    }

    /// What threads accumulate into their places of `partials`.
    fn accumulate(&self, partials: LocalId, all: &mut Partials, gpu: &mut Gpu) {
        let loops: Vec<Shared> = self.pass.shared.iter().copied().chain(self.column).collect();
        let pieces = pieces(&loops, &mut gpu.names);
        let inner = |piece: &Piece| piece.threads[1..].iter().map(|l| l.hi).collect::<Vec<_>>();
        let Some((whole, rest)) = pieces.split_first() else { return };
        if rest.iter().all(|piece| inner(piece) == inner(whole)) {
            self.accumulate_apart(partials, &pieces, all, gpu);
        } else {
            self.accumulate_together(partials, &pieces, all, gpu);
        }
    }

    /// In the threads, which are the first ones in every piece, and then into `partials`.
    fn accumulate_apart(&self, partials: LocalId, pieces: &[Piece], all: &mut Partials, gpu: &mut Gpu) {
        let Some(whole) = pieces.first() else { return };
        let run = self.pass.shared.last().map_or(1, |shared| shared.run);
        let lanes = (run > 1).then_some(run);
        let dims: Dims =
            whole.threads.iter().map(|l| l.hi.limit).chain(lanes).map(|dim| dim as usize).collect();
        let (acc, declare) = gpu.names.declare(self.chain.dtype, dims, Space::Thread);
        all.declare.push(declare);
        for (at, piece) in pieces.iter().enumerate() {
            let place = piece.own(lanes.map(|_| piece.lane()));
            let mut block = self.context.clone();
            if at == 0 {
                let start = Stmt::SetLocal { local: acc, index: place.clone(), value: self.start() };
                block.extend(gpu.names.refreshed(&piece.in_every_lane(vec![start])));
            }
            block.extend(self.rounds(piece, self.chain.step_into(acc, &place)));
            all.run.extend(piece.on_threads(piece.renumbered(block), &mut gpu.names));
        }
        let own =
            |lane: Option<i64>| Expr::GetLocal { local: acc, index: whole.own(lane.map(Affine::constant)) };
        let each: Vec<Expr> = match lanes {
            None => vec![own(None)],
            Some(run) => (0..run).map(|lane| own(Some(lane))).collect(),
        };
        let Some(value) = self.combined(each) else { return };
        let store = vec![Stmt::SetLocal { local: partials, index: smallvec![whole.slot.clone()], value }];
        all.run.extend(whole.on_threads(store, &mut gpu.names));
    }

    /// Into an array after each piece, where another thread may go on with the next. Groups take them from there into `partials`.
    fn accumulate_together(&self, partials: LocalId, pieces: &[Piece], all: &mut Partials, gpu: &mut Gpu) {
        let Some(whole) = pieces.first().filter(|_| self.groups(gpu) > 1) else {
            return self.accumulate_into(partials, pieces, all, gpu);
        };
        let (together, declare) = array(gpu, self.chain, self.partials() * self.columns());
        all.declare.push(declare);
        self.accumulate_into(together, pieces, all, gpu);
        let value = element_of(together, whole.slot.clone());
        let store = vec![Stmt::SetLocal { local: partials, index: smallvec![whole.slot.clone()], value }];
        all.run.extend(whole.on_threads(store, &mut gpu.names));
    }

    fn accumulate_into(&self, partials: LocalId, pieces: &[Piece], all: &mut Partials, gpu: &mut Gpu) {
        for (at, piece) in pieces.iter().enumerate() {
            let (acc, declare) = gpu.names.declare(self.chain.dtype, smallvec![], Space::Register);
            let place: Indices = smallvec![piece.slot.clone()];
            let start = match at {
                0 => self.start(),
                _ => Expr::GetLocal { local: partials, index: place.clone() },
            };
            let mut block = self.context.clone();
            block.extend([declare, Stmt::set_scalar(acc, start)]);
            block.extend(self.rounds(piece, self.chain.step_into(acc, &Indices::new())));
            block.push(Stmt::SetLocal { local: partials, index: place, value: Expr::local(acc) });
            all.run.extend(piece.on_threads(piece.renumbered(block), &mut gpu.names));
        }
    }

    fn start(&self) -> Expr {
        neutral(self.chain.op, self.chain.dtype).map_or(Expr::local(self.chain.acc), Expr::Const)
    }

    /// The elements that a thread takes in, in all rounds of a piece.
    fn rounds(&self, piece: &Piece, step: Stmt) -> Block {
        let is_shared = |var| self.pass.shared.iter().any(|shared| shared.var == var);
        let others: Vec<_> = self.chain.ks.iter().copied().filter(|k| !is_shared(k.var)).collect();
        let (step, kind) = self.pass.in_registers(piece, vec![step]);
        nest::wrap(&others, piece.in_every_round(step, kind))
    }

    /// Pairs, and pairs of pairs.
    fn combined(&self, mut each: Vec<Expr>) -> Option<Expr> {
        while each.len() > 1 {
            let upper = each.split_off(each.len() / 2);
            each = each.into_iter().zip(upper).map(|(a, b)| combined(self.chain.op, a, b)).collect();
        }
        each.pop()
    }

    /// The value that a round stores for what lies at `place`, where partials beside each other are `apart`.
    fn value(&self, round: &Round, place: &Affine, apart: i64) -> Option<Expr> {
        let read = |nth: i64| element_of(round.from, place.plus_constant(nth * round.left * apart));
        self.combined((0..round.width).map(read).collect())
    }

    /// Combines results column by column.
    fn round(&self, round: &Round, gpu: &mut Gpu) -> Block {
        let columns = self.columns();
        let (at, column) = (gpu.names.loop_id(), gpu.names.loop_id());
        let mut place = Affine::term(at, columns);
        if self.column.is_some() {
            place.add_term(column.into(), 1);
        }
        let Some(value) = self.value(round, &place, columns) else { return Block::new() };
        let store = vec![Stmt::SetLocal { local: round.to, index: smallvec![place], value }];
        let body = match self.column {
            Some(_) => vec![Stmt::looped(column, columns, LoopKind::Workgroup, store)],
            None => store,
        };
        noted(vec![Stmt::looped(at, round.left, LoopKind::Workgroup, body)], gpu)
    }

    /// Combines results group by group.
    fn grouped_round(&self, round: &Round, groups: i64, gpu: &mut Gpu) -> Block {
        let (group, at) = (gpu.names.loop_id(), gpu.names.loop_id());
        let place = |each: i64| Affine::term(group, each).plus(&Affine::var(at));
        let value = self.value(round, &place(round.left * round.width), 1);
        let Some(value) = value else { return Block::new() };
        let store = Stmt::SetLocal { local: round.to, index: smallvec![place(round.left)], value };
        let body = vec![Stmt::looped(at, round.left, LoopKind::Workgroup, vec![store])];
        noted(vec![Stmt::looped(group, groups, LoopKind::Workgroup, body)], gpu)
    }
}

/// Of each group's or column's results, `width` of `from` become one of the `left` ones of `to`.
struct Round {
    from: LocalId,
    to: LocalId,
    left: i64,
    width: i64,
}

fn noted(block: Block, gpu: &mut Gpu) -> Block {
    gpu.names.note(&block);
    block
}

fn array(gpu: &mut Gpu, chain: &Chain, len: i64) -> (LocalId, Stmt) {
    gpu.names.declare(chain.dtype, smallvec![len as usize], Space::Workgroup)
}
