//! The parts of `k`, one after another: each is staged in shared memory and multiplied.
//!
//! Where a thread has registers to spare, a part is read from memory while the one before is multiplied, and goes to the other one of two
//! arrays, so that threads meet once for each part:
//!
//! ```text
//! a0 := part 0
//! for p { next := part 2p + 1; multiply a0; a1 := next;  next := part 2p + 2; multiply a1; a0 := next }
//! multiply a0
//! ```

use lowered_ir::ir::{Affine, Block, LocalId, LoopId, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::nest::{self, Loop};
use crate::gpu::tile::Tiler;
use crate::gpu::tile::shape::{Side, Tile};
use crate::gpu::transfer::Transfer;

/// Where a part is staged.
#[derive(Clone, Copy)]
pub(crate) struct Staged {
    pub(crate) a: LocalId,
    pub(crate) b: LocalId,
}

/// The statements of parts of one length.
struct Part {
    /// Into the first arrays.
    load: Block,
    /// Into registers, and from there into each of the arrays.
    fetch: Block,
    put: Vec<Block>,
    /// The products of what is in each of the arrays.
    multiply: Vec<Block>,
}

/// How `k` is cut.
struct Cut {
    /// Loops around all parts.
    outer: Vec<Loop>,
    /// The loops of which parts are some iterations.
    inner: Vec<Loop>,
    /// A loop over parts of one length.
    step: Loop,
    /// Iterations of the first inner loop in each of them, and where they begin.
    len: i64,
    from: Affine,
    /// Iterations behind them.
    rest: i64,
}

impl Cut {
    fn parts(&self) -> i64 {
        self.step.hi.limit
    }
}

impl Tiler<'_> {
    /// The sums of the products of all parts.
    pub(crate) fn parts(&mut self, sums: LocalId) -> (Block, Block) {
        let cut = self.cut();
        let ahead = self.tile.ahead && (cut.parts() > 1 || cut.rest > 0);
        let transfers = self.transfers(&cut, cut.from.clone(), cut.len);
        let (staged, mut declare) = self.declare(&cut, &transfers, if ahead { 2 } else { 1 });
        let whole = self.part(&cut, (&transfers, cut.len), (&staged, sums), &mut declare);
        let rest = (cut.rest > 0).then(|| {
            let from = Affine::constant(cut.parts() * cut.len);
            let transfers = self.transfers(&cut, from, cut.rest);
            self.part(&cut, (&transfers, cut.rest), (&staged, sums), &mut declare)
        });
        let steps = match ahead {
            true => self.ahead(cut.step, &whole, rest.as_ref()),
            false => in_turn(cut.step, whole, rest),
        };
        (declare, nest::wrap(&cut.outer, steps))
    }

    fn cut(&mut self) -> Cut {
        let (outer, inner) = self.product.depths(self.tile.depth);
        let (mut outer, inner) = (outer.to_vec(), inner.to_vec());
        let depth = inner[0].hi.limit;
        let len = self.tile.staged_length(&inner);
        if self.tile.ahead
            && len == depth
            && let Some(step) = outer.pop()
        {
            return Cut { outer, inner, step, len, from: Affine::constant(0), rest: 0 };
        }
        let step = self.gpu.loop_of(depth / len);
        Cut { outer, inner, step, len, from: Affine::term(step.var, len), rest: depth % len }
    }

    /// What a part is copied by: of the rows' operand, and of the columns'.
    fn transfers(&mut self, cut: &Cut, from: Affine, len: i64) -> [Transfer; 2] {
        [(&self.product.a, self.tile.m), (&self.product.b, self.tile.n)].map(|(operand, side)| {
            let ks: Vec<Loop> = lengths(cut, len).map(|extent| self.gpu.loop_of(extent)).collect();
            let mut value = operand.clone();
            for (at, (old, new)) in cut.inner.iter().zip(&ks).enumerate() {
                let index = Affine::var(new.var);
                let index = if at == 0 { index.plus(&from) } else { index };
                value = walk::map_expr_indices(value, &mut |i| i.substitute(old.var, &index));
            }
            let own = self.gpu.loop_of(side.tile);
            // The side's variable is that of the tile's first row or column from here on.
            let moved = Affine::var(side.var).plus(&Affine::var(own.var));
            value = walk::map_expr_indices(value, &mut |i| i.substitute(side.var, &moved));
            Transfer::of(self.gpu, value, (ks, own), self.tile.threads())
        })
    }

    /// The arrays for so many parts.
    fn declare(&mut self, cut: &Cut, transfers: &[Transfer; 2], parts: usize) -> (Vec<Staged>, Block) {
        let margin = Tile::margin(self.gpu);
        let names = &mut self.gpu.names;
        let mut declare = Block::new();
        let mut array = |operand: &lowered_ir::ir::Expr, side: Side, transfer: &Transfer| {
            let row = side.tile + if transfer.turned { margin } else { 0 };
            let dims: Dims = lengths(cut, cut.len).chain([row]).map(|d| d as usize).collect();
            let (local, statement) = names.declare(operand.dtype(names), dims, Space::Workgroup);
            declare.push(statement);
            local
        };
        let [of_a, of_b] = transfers;
        let mut staged = || {
            let a = array(&self.product.a, self.tile.m, of_a);
            Staged { a, b: array(&self.product.b, self.tile.n, of_b) }
        };
        let staged = (0..parts).map(|_| staged()).collect();
        (staged, declare)
    }

    fn part(
        &mut self,
        cut: &Cut,
        (transfers, len): (&[Transfer; 2], i64),
        (staged, sums): (&[Staged], LocalId),
        declare: &mut Block,
    ) -> Part {
        let ks =
            |tiler: &mut Self| lengths(cut, len).map(|extent| tiler.gpu.loop_of(extent)).collect::<Vec<_>>();
        let [of_a, of_b] = transfers;
        let names = &mut self.gpu.names;
        let mut part =
            Part { load: Block::new(), fetch: Block::new(), put: Vec::new(), multiply: Vec::new() };
        part.load.extend(of_a.load(staged[0].a, names));
        part.load.extend(of_b.load(staged[0].b, names));
        if staged.len() > 1 {
            let arrays = |which: fn(&Staged) -> LocalId| staged.iter().map(which).collect::<Vec<LocalId>>();
            let a = of_a.halves(&arrays(|s| s.a), names);
            let b = of_b.halves(&arrays(|s| s.b), names);
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

    /// Parts of which each is read while the one before is multiplied.
    fn ahead(&mut self, step: Loop, whole: &Part, rest: Option<&Part>) -> Block {
        let mut steps = self.at(&whole.load, step.var, &Affine::constant(0));
        // Iterations that have a next one.
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

    /// Multiplies a part that is in one half, and moves the next one into the other.
    fn multiplied(&mut self, step: LoopId, part: &Part, at: &Affine, half: usize) -> Block {
        let mut body = self.at(&part.fetch, step, &at.plus_constant(1));
        body.extend(self.gpu.names.refreshed(&part.multiply[half]));
        body.extend(self.gpu.names.refreshed(&part.put[1 - half]));
        body
    }

    /// The statements for one step.
    fn at(&mut self, block: &[Stmt], step: LoopId, at: &Affine) -> Block {
        let mut block = block.to_vec();
        walk::substitute(&mut block, step, at);
        self.gpu.names.refreshed(&block)
    }
}

/// Parts one after the other.
fn in_turn(step: Loop, whole: Part, rest: Option<Part>) -> Block {
    let statements = |part: Part| part.load.into_iter().chain(part.multiply.into_iter().flatten());
    let mut steps: Block = statements(whole).collect();
    if step.hi.limit > 1 {
        steps = nest::wrap(&[step], steps);
    } else {
        walk::substitute(&mut steps, step.var, &Affine::constant(0));
    }
    steps.extend(rest.into_iter().flat_map(statements));
    steps
}

/// The extents of the loops in a part that has so many iterations of the first.
fn lengths(cut: &Cut, len: i64) -> impl Iterator<Item = i64> + '_ {
    cut.inner.iter().enumerate().map(move |(at, k)| if at == 0 { len } else { k.hi.limit })
}
