//! Blocks of `k`: each block of the operands is staged in shared memory and multiplied.
//!
//! If threads have enough registers, blocks are double-buffered. A thread loads the next block from global
//! memory while it multiplies the current one, and stores it into the other of two arrays, so that each block
//! needs one barrier:
//!
//! ```text
//! a0 := block 0
//! for p { next := block 2p + 1; multiply a0; a1 := next;  next := block 2p + 2; multiply a1; a0 := next }
//! multiply a0
//! ```

use lowered_ir::ir::{Affine, Block, LocalId, LoopId, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::nest::{self, Loop};
use crate::gpu::shared_copy::SharedCopy;
use crate::gpu::tile_contraction::tile_size::{MatmulTile, TileAxis};
use crate::gpu::tile_contraction::tiler::{MatmulTiler, StagedOperands};

/// The statements for blocks of one length.
struct KBlock {
    /// Copies a block into the first arrays.
    load: Block,
    /// Loads a block into registers, and stores it from there into each pair of arrays.
    fetch: Block,
    put: Vec<Block>,
    /// Multiplies the block in each pair of arrays.
    multiply: Vec<Block>,
}

/// How `k` is split into blocks.
struct KSplit {
    /// Loops around all blocks.
    outer: Vec<Loop>,
    /// Loops inside a block: some iterations of the first loop and all of the others.
    inner: Vec<Loop>,
    /// The loop over whole blocks.
    step: Loop,
    /// The number of iterations of the first inner loop in a block; `from` is the first of them.
    len: i64,
    from: Affine,
    /// Iterations that remain after whole blocks.
    rest: i64,
}

impl KSplit {
    fn parts(&self) -> i64 {
        self.step.hi.limit
    }
}

impl MatmulTiler<'_> {
    /// Declarations of the shared arrays, and the accumulation over all blocks.
    pub(crate) fn parts(&mut self, sums: LocalId) -> (Block, Block) {
        let cut = self.cut();
        let ahead = self.tile.ahead && (cut.parts() > 1 || cut.rest > 0);
        let transfers = self.transfers(&cut, cut.from.clone(), cut.len);
        let (staged, mut declare) = self.declare(&cut, &transfers, if ahead { 2 } else { 1 });
        let whole = self.part(&cut, &transfers, cut.len, &staged, sums, &mut declare);
        let rest = (cut.rest > 0).then(|| {
            let from = Affine::constant(cut.parts() * cut.len);
            let transfers = self.transfers(&cut, from, cut.rest);
            self.part(&cut, &transfers, cut.rest, &staged, sums, &mut declare)
        });
        let steps = match ahead {
            true => self.ahead(cut.step, &whole, rest.as_ref()),
            false => in_turn(cut.step, whole, rest),
        };
        (declare, nest::wrap(&cut.outer, steps))
    }

    fn cut(&mut self) -> KSplit {
        let (outer, inner) = self.product.depths(self.tile.depth);
        let (mut outer, inner) = (outer.to_vec(), inner.to_vec());
        let depth = inner[0].hi.limit;
        let len = self.tile.staged_length(&inner);
        if self.tile.ahead
            && len == depth
            && let Some(step) = outer.pop()
        {
            return KSplit { outer, inner, step, len, from: Affine::constant(0), rest: 0 };
        }
        let step = self.gpu.loop_of(depth / len);
        let from = Affine::term(step.var, len);
        KSplit { outer, inner, step, len, from, rest: depth % len }
    }

    /// The copies of a block of operand A and of operand B.
    fn transfers(&mut self, cut: &KSplit, from: Affine, len: i64) -> [SharedCopy; 2] {
        [(&self.product.a, self.tile.m), (&self.product.b, self.tile.n)].map(|(operand, side)| {
            let ks: Vec<Loop> = lengths(cut, len).map(|extent| self.gpu.loop_of(extent)).collect();
            let mut value = operand.clone();
            for (at, (old, new)) in cut.inner.iter().zip(&ks).enumerate() {
                let index = Affine::var(new.var);
                let index = if at == 0 { index.plus(&from) } else { index };
                value = walk::map_expr_indices(value, &mut |i| i.substitute(old.var, &index));
            }
            let own = self.gpu.loop_of(side.tile);
            // From here on, the variable stands for the first row or column of the tile.
            let moved = Affine::var(side.var).plus(&Affine::var(own.var));
            value = walk::map_expr_indices(value, &mut |i| i.substitute(side.var, &moved));
            SharedCopy::of(self.gpu, value, ks, own, self.tile.threads())
        })
    }

    /// Declares the shared arrays for `parts` blocks.
    fn declare(
        &mut self,
        cut: &KSplit,
        transfers: &[SharedCopy; 2],
        parts: usize,
    ) -> (Vec<StagedOperands>, Block) {
        let margin = MatmulTile::margin(self.gpu);
        let names = &mut self.gpu.names;
        let mut declare = Block::new();
        let mut array = |operand: &lowered_ir::ir::Expr, side: TileAxis, transfer: &SharedCopy| {
            let row = side.tile + if transfer.transposed { margin } else { 0 };
            let dims: Dims = lengths(cut, cut.len).chain([row]).map(|d| d as usize).collect();
            let (local, statement) = names.declare(operand.dtype(names), dims, Space::Workgroup);
            declare.push(statement);
            local
        };
        let [of_a, of_b] = transfers;
        let mut staged = || {
            let a = array(&self.product.a, self.tile.m, of_a);
            StagedOperands { a, b: array(&self.product.b, self.tile.n, of_b) }
        };
        let staged = (0..parts).map(|_| staged()).collect();
        (staged, declare)
    }

    fn part(
        &mut self,
        cut: &KSplit,
        transfers: &[SharedCopy; 2],
        len: i64,
        staged: &[StagedOperands],
        sums: LocalId,
        declare: &mut Block,
    ) -> KBlock {
        let ks =
            |tiler: &mut Self| lengths(cut, len).map(|extent| tiler.gpu.loop_of(extent)).collect::<Vec<_>>();
        let [of_a, of_b] = transfers;
        let names = &mut self.gpu.names;
        let mut part =
            KBlock { load: Block::new(), fetch: Block::new(), put: Vec::new(), multiply: Vec::new() };
        part.load.extend(of_a.load(staged[0].a, names));
        part.load.extend(of_b.load(staged[0].b, names));
        if staged.len() > 1 {
            let arrays =
                |which: fn(&StagedOperands) -> LocalId| staged.iter().map(which).collect::<Vec<LocalId>>();
            let a = of_a.split(&arrays(|s| s.a), names);
            let b = of_b.split(&arrays(|s| s.b), names);
            declare.extend(a.declare.into_iter().chain(b.declare));
            part.fetch = a.fetch.into_iter().chain(b.fetch).collect();
            part.put = a.put.into_iter().zip(b.put).map(|(a, b)| [a, b].concat()).collect();
        }
        for &staged in staged {
            let ks = ks(self);
            part.multiply.push(self.multiply(sums, staged, &ks));
        }
        part
    }

    /// Double-buffered blocks: each is loaded while the one before is multiplied.
    fn ahead(&mut self, step: Loop, whole: &KBlock, rest: Option<&KBlock>) -> Block {
        let mut steps = self.at(&whole.load, step.var, &Affine::constant(0));
        // The blocks that have a successor.
        let more = step.hi.limit - 1;
        let pair = self.gpu.loop_of(more / 2);
        if pair.hi.limit > 0 {
            let first = Affine::term(pair.var, 2);
            let mut body = self.multiplied(step.var, whole, &first, 0);
            body.extend(self.multiplied(step.var, whole, &first.plus_constant(1), 1));
            steps.extend(nest::wrap(&[pair], body));
        }
        let mut half = 0;
        if more % 2 > 0 {
            steps.extend(self.multiplied(step.var, whole, &Affine::constant(more - 1), 0));
            half = 1;
        }
        match rest {
            None => steps.extend(self.gpu.names.refreshed(&whole.multiply[half])),
            Some(rest) => {
                steps.extend(rest.fetch.iter().cloned());
                steps.extend(self.gpu.names.refreshed(&whole.multiply[half]));
                steps.extend(rest.put[1 - half].iter().cloned());
                steps.extend(rest.multiply[1 - half].iter().cloned());
            }
        }
        steps
    }

    /// Multiplies the block in one pair of arrays and loads the next one into the other pair.
    fn multiplied(&mut self, step: LoopId, part: &KBlock, at: &Affine, half: usize) -> Block {
        let mut body = self.at(&part.fetch, step, &at.plus_constant(1));
        body.extend(self.gpu.names.refreshed(&part.multiply[half]));
        body.extend(self.gpu.names.refreshed(&part.put[1 - half]));
        body
    }

    /// The statements with the step's variable replaced.
    fn at(&mut self, block: &[Stmt], step: LoopId, at: &Affine) -> Block {
        let mut block = block.to_vec();
        walk::substitute(&mut block, step, at);
        self.gpu.names.refreshed(&block)
    }
}

/// Blocks one after the other, in one pair of arrays.
fn in_turn(step: Loop, whole: KBlock, rest: Option<KBlock>) -> Block {
    let statements = |part: KBlock| part.load.into_iter().chain(part.multiply.into_iter().flatten());
    let mut steps: Block = statements(whole).collect();
    if step.hi.limit > 1 {
        steps = nest::wrap(&[step], steps);
    } else {
        walk::substitute(&mut steps, step.var, &Affine::constant(0));
    }
    steps.extend(rest.into_iter().flat_map(statements));
    steps
}

/// The extents of the loops of a block with `len` iterations of the first loop.
fn lengths(cut: &KSplit, len: i64) -> impl Iterator<Item = i64> + '_ {
    cut.inner.iter().enumerate().map(move |(at, k)| if at == 0 { len } else { k.hi.limit })
}
