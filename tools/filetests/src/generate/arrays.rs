//! Random locals of several elements: a first loop writes them, others use them, and a last one reads them.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, Space, Stmt};
use tnode::{DType, ModeState};

use super::Maker;

const SPACES: [Space; 5] = [Space::Register, Space::Stack, Space::Scratch, Space::Workgroup, Space::Thread];

/// A local of one dimension.
#[derive(Clone, Copy)]
struct Tile {
    local: LocalId,
    dtype: DType,
    extent: i64,
    space: Space,
}

impl Maker<'_, '_> {
    /// `declare l f32[n]`, `l[i] := e`, accumulations into `l[i]`, `node[i] := … l[i] …`.
    pub(super) fn tile(&mut self) -> Block {
        let tile = Tile {
            local: self.fresh.local_id(),
            dtype: *self.choices.pick(&self.types.all),
            extent: 1 + self.choices.below(5) as i64,
            space: *self.choices.pick(&SPACES),
        };
        let dims = [tile.extent as usize].into_iter().collect();
        let Tile { local, dtype, space, .. } = tile;
        let mut block = vec![Stmt::Declare { local, dtype, dims, space }];
        if space == Space::Scratch {
            let (var, value) = (self.enter(tile.extent), self.constant(dtype));
            self.scope.pop();
            let store = Stmt::SetLocal { local, index: [Affine::var(var)].into(), value };
            block.push(Stmt::serial(var, tile.extent, vec![store]));
        }
        if self.choices.chance(3, 4) {
            block.extend(self.over(tile, |maker, index, _own| maker.set_element(tile, index)));
        }
        if self.choices.chance(1, 2) {
            let extent = 1 + self.choices.below(3) as i64;
            let var = self.enter(extent);
            let body = self.over(tile, |maker, index, own| maker.accumulate_element(tile, index, own));
            self.scope.pop();
            block.push(Stmt::serial(var, extent, body));
        }
        block.extend(self.drained(tile));
        block
    }

    /// A loop over the elements; `body` gets the index of the current element and an expression that reads
    /// it.
    fn over(&mut self, tile: Tile, body: impl FnOnce(&mut Self, Indices, Expr) -> Block) -> Block {
        let var = self.enter(tile.extent);
        let index: Indices = [Affine::var(var)].into_iter().collect();
        let own = Expr::GetLocal { local: tile.local, index: index.clone() };
        self.locals.push((own.clone(), tile.dtype));
        let body = body(self, index, own);
        self.locals.pop();
        self.scope.pop();
        let kinds = match tile.space {
            Space::Register => [LoopKind::Unrolled, LoopKind::Vector, LoopKind::Unrolled],
            Space::Stack | Space::Scratch => [LoopKind::Serial, LoopKind::Vector, LoopKind::Unrolled],
            Space::Workgroup => [LoopKind::Serial, LoopKind::Workgroup, LoopKind::Workgroup],
            Space::Thread => [LoopKind::Workgroup; 3],
        };
        vec![Stmt::looped(var, tile.extent, *self.choices.pick(&kinds), body)]
    }

    fn set_element(&mut self, tile: Tile, index: Indices) -> Block {
        let value = self.expr(tile.dtype, 2);
        vec![Stmt::SetLocal { local: tile.local, index, value }]
    }

    fn accumulate_element(&mut self, tile: Tile, index: Indices, own: Expr) -> Block {
        let new = self.expr(tile.dtype, 2);
        let value = self.combined(tile.dtype, own, new);
        vec![Stmt::SetLocal { local: tile.local, index, value }]
    }

    /// A loop that stores the elements in a new node.
    fn drained(&mut self, tile: Tile) -> Block {
        let dtype = *self.choices.pick(&self.types.all);
        let dims = [tile.extent as usize].into_iter().collect();
        let node = self.declare(dtype, dims, ModeState::undecided());
        self.target = Some(node);
        self.over(tile, |maker, index, own| {
            let own = maker.as_type(dtype, tile.dtype, own);
            let other = maker.expr(dtype, 1);
            let value = maker.combined(dtype, own, other);
            vec![Stmt::Set { node, index, value }]
        })
    }
}
