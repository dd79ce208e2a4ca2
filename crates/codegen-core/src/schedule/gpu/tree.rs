//! Partial results of threads, and the tree that combines them.
//!
//! Each thread accumulates its elements in increasing order from the neutral element of the operation. Partials are combined in rounds:
//! of `n`, result `j` takes in `j + n/2`, in a round of four `(j, j + n/2)` and `(j + n/4, j + 3·n/4)`, those two then. Each round has
//! an array of its own: what a round reads, it does not write.

use lowered_ir::ir::{Affine, Block, Expr, LocalId, LoopKind, Space, Stmt};
use smallvec::smallvec;

use super::super::nest;
use super::super::numerics::{combined, nonzero_neutral};
use super::Gpu;
use super::chain::Chain;
use super::pieces::{Piece, Shared, pieces};

/// Partial results in shared memory.
pub(super) struct Partials {
    /// What declares the arrays, in the workgroup's body.
    pub(super) declare: Block,
    /// What fills and combines them.
    pub(super) run: Block,
    /// The array of final results, one per column.
    pub(super) result: LocalId,
}

/// A chain shared out along some of its loops, for `columns` outputs beside each other.
pub(super) struct Tree<'a> {
    pub(super) chain: &'a Chain,
    /// The chain's loops that threads share; powers of two of them.
    pub(super) shared: Vec<Shared>,
    /// An output loop with a thread per iteration, the innermost; every thread has a partial per column.
    pub(super) column: Option<Shared>,
    /// What the elements need to be computed.
    pub(super) context: Block,
}

impl Tree<'_> {
    fn columns(&self) -> i64 {
        self.column.map_or(1, |column| column.threads)
    }

    fn partials(&self) -> i64 {
        self.shared.iter().map(|shared| shared.threads).product()
    }

    pub(super) fn emit(&self, gpu: &mut Gpu) -> Partials {
        let (first, declare) = array(gpu, self.chain, self.partials() * self.columns());
        let mut all = Partials { declare: vec![declare], run: Block::new(), result: first };
        let loops: Vec<Shared> = self.shared.iter().copied().chain(self.column).collect();
        for (at, piece) in pieces(&loops, &mut gpu.names).iter().enumerate() {
            let block = self.accumulate(piece, first, at == 0, gpu);
            all.run.extend(piece.on_threads(block, &mut gpu.names));
        }
        let mut left = self.partials();
        while left > 1 {
            let width = if left % 4 == 0 { 4 } else { 2 };
            left /= width;
            let (next, declare) = array(gpu, self.chain, left * self.columns());
            all.declare.push(declare);
            all.run.extend(self.round(all.result, next, left, width, gpu));
            all.result = next;
        }
        all
    }

    /// What one thread accumulates into its place of `partials`.
    fn accumulate(&self, piece: &Piece, partials: LocalId, first: bool, gpu: &mut Gpu) -> Block {
        let chain = self.chain;
        let (acc, declare) = gpu.names.declare(chain.dtype, smallvec![], Space::Register);
        let place = || smallvec![piece.slot.clone()];
        let mut block = self.context.clone();
        block.push(declare);
        match nonzero_neutral(chain.op, chain.dtype) {
            _ if !first => {
                block.push(Stmt::set_scalar(acc, Expr::GetLocal { local: partials, index: place() }));
            }
            Some(start) => block.push(Stmt::set_scalar(acc, start)),
            None => {}
        }
        let is_shared = |var| self.shared.iter().any(|shared| shared.var == var);
        let others: Vec<_> = chain.ks.iter().copied().filter(|k| !is_shared(k.var)).collect();
        block.extend(nest::wrap(&others, piece.in_every_round(vec![chain.step_into(acc)])));
        block.push(Stmt::SetLocal { local: partials, index: place(), value: Expr::local(acc) });
        piece.renumbered(block)
    }

    /// Combines `width` results of `from` into each of `left` results of `to`, column by column.
    fn round(&self, from: LocalId, to: LocalId, left: i64, width: i64, gpu: &mut Gpu) -> Block {
        let columns = self.columns();
        let (at, column) = (gpu.names.loop_id(), gpu.names.loop_id());
        let mut place = Affine::term(at, columns);
        if self.column.is_some() {
            place.add_term(column.into(), 1);
        }
        let read = |nth: i64| Expr::GetLocal {
            local: from,
            index: smallvec![place.plus_constant(nth * left * columns)],
        };
        let pair = |a, b| combined(self.chain.op, a, b);
        let half = width / 2;
        let pairs: Vec<Expr> = (0..half).map(|nth| pair(read(nth), read(nth + half))).collect();
        let Some(value) = pairs.into_iter().reduce(pair) else { return Block::new() };
        let store = vec![Stmt::SetLocal { local: to, index: smallvec![place.clone()], value }];
        let body = match self.column {
            Some(_) => vec![Stmt::looped(column, columns, LoopKind::Workgroup, store)],
            None => store,
        };
        let block = vec![Stmt::looped(at, left, LoopKind::Workgroup, body)];
        gpu.names.note(&block);
        block
    }
}

fn array(gpu: &mut Gpu, chain: &Chain, len: i64) -> (LocalId, Stmt) {
    gpu.names.declare(chain.dtype, smallvec![len as usize], Space::Workgroup)
}
