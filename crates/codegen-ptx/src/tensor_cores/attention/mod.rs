//! Attention in one pass, with `mma` and asynchronous copies.
//!
//! ```text
//! each block computes some rows, each of its warps 16 of them
//!   copy the rows of queries, and the first tile of keys and values, to shared memory
//!   for each tile of positions {
//!     wait for its copies; block barrier; start the copies of the next tile
//!     each warp: scores := queries · keysᵀ, in registers
//!     each thread: the greatest score of its two rows so far, weights, and the correction of the sums
//!     each warp: sums += weights · values, with the weights in the registers of the scores
//!   }
//!   each thread: the epilogue of its outputs
//! }
//! ```
//!
//! `mma` holds its results in the layout in which it takes operand A, so weights go from one product to the
//! next without shared memory. Weights that are not rounded are the sum of three `bf16` numbers, and are
//! multiplied by parts: the products are exact. Tiles that all rows of a block attend to in full come first;
//! the others, at the diagonal and at the last position, have code of their own, with masks.
//!
//! Source: Dao, FlashAttention-2, 2023, for the division of the work; [`super::mma`] for tiles in shared
//! memory.

mod softmax;
mod tile;

use ptx_asm::{
    CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, RegClass, Regs, SpecialReg,
    StateSpace, StmtList, Ty,
};

use self::softmax::RowState;
pub(crate) use self::tile::AttentionTile;
use super::mma::{LdmatrixAddresses, MatrixOrder, OperandLoader, OperandTile, SharedLayout};
use super::{OperandView, OutputElements};

/// Attention, or a batch of it. Strides are in elements, between rows of contiguous elements.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// Positions that attend.
    pub(crate) rows: u32,
    /// Positions that are attended to.
    pub(crate) positions: u32,
    /// Elements of a query and of a key.
    pub(crate) depth: u32,
    /// Elements of a value.
    pub(crate) features: u32,
    pub(crate) batch: u32,
    /// The strides of queries, keys and values.
    pub(crate) strides: [u32; 3],
    /// `F16` or `Bf16`.
    pub(crate) element: Ty,
    /// Whether weights are rounded to that type before values are multiplied by them.
    pub(crate) is_rounded: bool,
    /// If row `r` attends to the positions below `r + n` only, `n`.
    pub(crate) diagonal: Option<i32>,
}

impl Attention {
    /// Whether there can be tiles that only some rows attend to in full, or tiles that all rows do.
    fn has_tiles(&self, tile: &AttentionTile, is_edge: bool) -> bool {
        match is_edge {
            true => self.diagonal.is_some() || !self.positions.is_multiple_of(tile.positions),
            false => self.positions >= tile.positions,
        }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttentionOperand {
    Queries,
    Keys,
    Values,
}

/// A row and a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScorePlace {
    pub(crate) row: Reg,
    pub(crate) position: Reg,
}

/// Writes the parts of attention that depend on the routine. The emitter of the routine implements this.
pub(crate) trait AttentionCallbacks {
    /// The builder of the kernel.
    fn builder(&mut self) -> &mut PtxBuilder;

    /// Selects an attention of the batch by its index.
    fn enter_batch(&mut self, number: Reg);

    /// The address of the first element of an operand.
    fn base_address(&mut self, of: AttentionOperand) -> Reg;

    /// The score that is maximized, from a product of query and key.
    fn score(&mut self, at: ScorePlace, product: Reg) -> Reg;

    /// The greater of two scores.
    fn greater(&mut self, one: Reg, other: Reg) -> Reg;

    /// The factor between weights relative to the greatest score `before` and those relative to `now`.
    fn rescale(&mut self, before: Reg, now: Reg) -> Reg;

    /// The weight of a position, from a product of query and key and the greatest score.
    fn weight(&mut self, at: ScorePlace, product: Reg, greatest: Reg) -> Reg;

    /// Writes the epilogue of adjacent features of a row, whose weights have this sum.
    fn epilogue(&mut self, outputs: OutputElements, sums: &[Reg], weights: Reg);

    /// Writes a nested block and returns it.
    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn AttentionCallbacks)) -> StmtList;
}

/// A fragment of results: two elements of one row, and two of the eighth row below.
type Fragment = [Reg; 4];

/// Writes the body of the kernel.
pub(crate) fn emit(callbacks: &mut dyn AttentionCallbacks, attention: &Attention, tile: &AttentionTile) {
    let b = callbacks.builder();
    let (thread, block) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Block));
    let blocks = attention.rows.div_ceil(tile.rows());
    let batch = b.binary(PtxBinaryOp::Div, Ty::U32, block, blocks);
    let mut number = b.binary(PtxBinaryOp::Rem, Ty::U32, block, blocks);
    if attention.diagonal.is_some() {
        // The last rows attend to the most positions; they come first, so that no SM begins with them late.
        number = b.binary(PtxBinaryOp::Sub, Ty::U32, blocks - 1, number);
    }
    let row = b.binary(PtxBinaryOp::Mul, Ty::U32, number, tile.rows());
    callbacks.enter_batch(batch);
    let operands = [AttentionOperand::Queries, AttentionOperand::Keys, AttentionOperand::Values];
    let bases = operands.map(|operand| callbacks.base_address(operand));
    let b = callbacks.builder();
    let shared = b.shared(tile.bytes(), 1024);
    let window = b.address(StateSpace::Shared, shared);
    let mut copies = Copies::new(b, attention, tile, (thread, row, window), bases);
    copies.begin(b);
    let operands = Operands::new(b, attention, tile, thread, window);
    let state = RowState::new(b, attention, tile, (thread, row));
    let sums: Vec<Fragment> = (0..attention.features.div_ceil(16) * 2).map(|_| zeros(b)).collect();
    let position = b.mov(RegClass::B32, 0_u32);
    let mut kernel = Kernel { attention, tile, copies, operands, state, sums, position };
    kernel.all_tiles(callbacks, row);
    kernel.finish(callbacks, (row, thread));
}

fn zeros(b: &mut PtxBuilder) -> Fragment {
    [(); 4].map(|()| b.mov(RegClass::F32, 0_f32))
}

/// The copies to shared memory by one thread.
struct Copies {
    query: OperandLoader,
    key: OperandLoader,
    value: OperandLoader,
    window: Reg,
    /// Offsets of the first stage and of the values in a stage.
    starts: [u32; 2],
}

impl Copies {
    fn new(
        b: &mut PtxBuilder,
        attention: &Attention,
        tile: &AttentionTile,
        (thread, row, window): (Reg, Reg, Reg),
        [query, key, value]: [Reg; 3],
    ) -> Copies {
        let [of_query, of_key, of_value] = attention.strides;
        let first = b.mov(RegClass::B32, 0_u32);
        let view = |extent, k_contiguous, stride| OperandView { extent, k_contiguous, stride, batch: None };
        let side = |extent, k| OperandTile { extent, k, threads: tile.threads(), element: ELEMENT };
        let query = OperandLoader::new(
            b,
            &view(attention.rows, true, of_query),
            side(tile.rows(), tile.depth),
            attention.depth,
            thread,
            row,
            query,
        );
        // Along positions, tiles of keys and values follow each other, as those of an operand along K.
        let mut along = |base, extent, padded, stride| {
            let view = view(extent, false, stride);
            OperandLoader::new(
                b,
                &view,
                side(padded, tile.positions),
                attention.positions,
                thread,
                first,
                base,
            )
        };
        Copies {
            query,
            key: along(key, attention.depth, tile.depth, of_key),
            value: along(value, attention.features, tile.features, of_value),
            window,
            starts: [tile.query_bytes(), tile.key_bytes()],
        }
    }

    /// Copies the queries and the first tile, and waits for them.
    fn begin(&mut self, b: &mut PtxBuilder) {
        self.query.copy(b, self.window, 0, None);
        let first = b.mov(RegClass::B32, 0_u32);
        self.issue(b, first, None);
        b.push(Inst::CpAsyncWait { pending: 0 });
        b.barrier();
    }

    /// Starts the copies of the next tile to the stage at this offset.
    fn issue(&mut self, b: &mut PtxBuilder, stage: Reg, when: Option<GuardPredicate>) {
        let to = b.add(Ty::U32, self.window, stage);
        let [first, values] = self.starts;
        self.key.copy(b, to, first, when);
        self.value.copy(b, to, first + values, when);
        b.push(Inst::CpAsyncCommit);
    }
}

/// Bytes of an element.
const ELEMENT: u32 = 2;

/// The most steps along the depth for which the queries of a warp stay in registers.
const KEPT_STEPS: u32 = 8;

/// The operands of a warp in shared memory.
struct Operands {
    query: LdmatrixAddresses,
    key: LdmatrixAddresses,
    value: LdmatrixAddresses,
    /// The queries, if they are kept in registers.
    kept: Option<Vec<Regs>>,
    mma: MmaShape,
}

impl Operands {
    fn new(
        b: &mut PtxBuilder,
        attention: &Attention,
        tile: &AttentionTile,
        thread: Reg,
        window: Reg,
    ) -> Operands {
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, thread, 31_u32);
        let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
        let row = b.binary(PtxBinaryOp::Mul, Ty::U32, warp, 16_u32);
        let first = b.mov(RegClass::B32, 0_u32);
        let layout = |k_contiguous, extent, k| {
            let view = OperandView { extent, k_contiguous, stride: 0, batch: None };
            SharedLayout::of(&view, OperandTile { extent, k, threads: tile.threads(), element: ELEMENT })
        };
        let (rows, positions) = (layout(true, tile.rows(), tile.depth), tile.positions);
        let query = LdmatrixAddresses::new(b, rows, lane, row, window, 1, MatrixOrder::RowsFirst);
        let keys = b.add(Ty::U32, window, tile.query_bytes());
        let of_keys = layout(true, positions, tile.depth);
        let key = LdmatrixAddresses::new(b, of_keys, lane, first, keys, positions / 16, MatrixOrder::KFirst);
        let values = b.add(Ty::U32, keys, tile.key_bytes());
        let of_values = layout(false, tile.features, positions);
        let count = attention.features.div_ceil(16);
        let value = LdmatrixAddresses::new(b, of_values, lane, first, values, count, MatrixOrder::KFirst);
        let steps = attention.depth.div_ceil(16);
        let kept = (steps <= KEPT_STEPS)
            .then(|| (0..steps).map(|step| query.load(b, query.bases(), step, 0)).collect());
        let mma = if attention.element == Ty::F16 { MmaShape::F16K16 } else { MmaShape::Bf16K16 };
        Operands { query, key, value, kept, mma }
    }

    /// The queries at a step along the depth.
    fn query(&self, b: &mut PtxBuilder, step: u32) -> Regs {
        match &self.kept {
            Some(kept) => kept[step as usize].clone(),
            None => {
                let first = b.mov(RegClass::B32, 0_u32);
                self.query.load_at(b, first, step, 0)
            }
        }
    }

    /// Adds a product to each of two adjacent fragments.
    fn multiply(&self, b: &mut PtxBuilder, a: &Regs, pair: &Regs, to: &[Fragment]) {
        for (half, &to) in to.iter().enumerate() {
            let d: Regs = to.into();
            let of_b = pair[2 * half..2 * half + 2].into();
            b.push(Inst::Mma { shape: self.mma, d: d.clone(), a: a.clone(), b: of_b, c: d });
        }
    }
}

/// The kernel while it is written.
struct Kernel<'a> {
    attention: &'a Attention,
    tile: &'a AttentionTile,
    copies: Copies,
    operands: Operands,
    state: RowState,
    /// The sums of the warp's rows.
    sums: Vec<Fragment>,
    /// The first position of the tile.
    position: Reg,
}

impl Kernel<'_> {
    /// Writes the loops over the tiles of positions.
    fn all_tiles(&mut self, callbacks: &mut dyn AttentionCallbacks, row: Reg) {
        let b = callbacks.builder();
        let ends = self.ends(b, row);
        let stage = b.mov(RegClass::B32, 0_u32);
        for (is_edge, end) in [(false, ends[0]), (true, ends[1])] {
            if !self.attention.has_tiles(self.tile, is_edge) {
                continue;
            }
            let b = callbacks.builder();
            let runs = b.compare(CmpOp::Lt, Ty::S32, self.position, end);
            let mut body = |callbacks: &mut dyn AttentionCallbacks| {
                let body = callbacks.nested_block(&mut |callbacks| {
                    self.tile_and_copies(callbacks, stage, ends[1], is_edge);
                });
                let b = callbacks.builder();
                // The body has advanced the position.
                let again = b.register(RegClass::Pred);
                let mut body = body;
                body.push(PtxStmt::Inst(Inst::Compare {
                    cmp: CmpOp::Lt,
                    ty: Ty::S32,
                    dst: again,
                    a: self.position.into(),
                    b: end.into(),
                }));
                b.push_stmt(PtxStmt::Loop { body, repeat_while: GuardPredicate::on(again) });
            };
            let then = callbacks.nested_block(&mut body);
            let guard = GuardPredicate::on(runs);
            callbacks.builder().push_stmt(PtxStmt::If { guard, then, otherwise: Vec::new() });
        }
    }

    /// The positions at which the tiles that every row of the block attends to in full end, and at which all
    /// tiles end.
    fn ends(&self, b: &mut PtxBuilder, row: Reg) -> [Reg; 2] {
        let (width, positions) = (self.tile.positions, self.attention.positions);
        let Some(diagonal) = self.attention.diagonal else {
            return [positions / width, positions.div_ceil(width)]
                .map(|tiles| b.mov(RegClass::B32, tiles * width));
        };
        let mut end = |behind: i32, more: u32| {
            let end = b.add(Ty::U32, row, behind as u32);
            let end = b.binary(PtxBinaryOp::Min, Ty::S32, end, positions);
            let end = b.binary(PtxBinaryOp::Max, Ty::S32, end, 0_u32);
            let tiles = b.add(Ty::U32, end, more);
            b.binary(PtxBinaryOp::And, Ty::B32, tiles, !(width - 1))
        };
        [end(diagonal, 0), end(diagonal + self.tile.rows() as i32 - 1, width - 1)]
    }

    /// Writes the body of a loop over tiles.
    fn tile_and_copies(
        &mut self,
        callbacks: &mut dyn AttentionCallbacks,
        stage: Reg,
        end: Reg,
        is_edge: bool,
    ) {
        let width = self.tile.positions;
        let b = callbacks.builder();
        b.push(Inst::CpAsyncWait { pending: 0 });
        b.barrier();
        let next = b.add(Ty::U32, self.position, width);
        let more = b.compare(CmpOp::Lt, Ty::S32, next, end);
        let other = b.binary(PtxBinaryOp::Sub, Ty::U32, self.tile.stage_bytes(), stage);
        self.copies.issue(b, other, Some(GuardPredicate::on(more)));
        self.tile(callbacks, stage, is_edge);
        let b = callbacks.builder();
        b.set(stage, other);
        b.set(self.position, next);
    }

    /// Writes the computation of a tile.
    fn tile(&mut self, callbacks: &mut dyn AttentionCallbacks, stage: Reg, is_edge: bool) {
        let b = callbacks.builder();
        let products = self.products(b, stage);
        let inside = is_edge.then(|| self.state.inside(b, self.position, products.len()));
        let (weights, factors) = self.state.weights(callbacks, self.position, &products, inside.as_deref());
        let b = callbacks.builder();
        for sum in self.sums.iter().flatten().zip([0, 0, 1, 1].into_iter().cycle()) {
            let (&sum, row) = sum;
            let corrected = b.binary(PtxBinaryOp::Mul, Ty::F32, sum, factors[row]);
            b.set(sum, corrected);
        }
        self.add_values(b, stage, &weights);
    }

    /// The products of queries and keys of a tile.
    fn products(&self, b: &mut PtxBuilder, stage: Reg) -> Vec<Fragment> {
        let products: Vec<Fragment> = (0..self.tile.positions / 8).map(|_| zeros(b)).collect();
        for step in 0..self.attention.depth.div_ceil(16) {
            let query = self.operands.query(b, step);
            for (at, fragments) in (0..).zip(products.chunks(2)) {
                let pair = self.operands.key.load_at(b, stage, step, at);
                self.operands.multiply(b, &query, &pair, fragments);
            }
        }
        products
    }

    /// Adds weighted values to the sums.
    fn add_values(&self, b: &mut PtxBuilder, stage: Reg, weights: &[Fragment]) {
        for (step, fragments) in (0..).zip(weights.chunks(2)) {
            let parts = softmax::parts(b, self.attention, fragments);
            for (at, sums) in (0..).zip(self.sums.chunks(2)) {
                let pair = self.operands.value.load_at(b, stage, step, at);
                for part in &parts {
                    self.operands.multiply(b, part, &pair, sums);
                }
            }
        }
    }

    /// Writes the epilogue.
    fn finish(&self, callbacks: &mut dyn AttentionCallbacks, (row, thread): (Reg, Reg)) {
        let b = callbacks.builder();
        let weights = self.state.total(b);
        let own = b.add(Ty::U32, row, self.state.row_in_block);
        let half = b.binary(PtxBinaryOp::And, Ty::B32, thread, 3_u32);
        let count = self.attention.features as usize / 8;
        let is_ragged = !self.attention.rows.is_multiple_of(self.tile.rows());
        for (side, &weights) in weights.iter().enumerate() {
            let down = 8 * side as u32;
            let mut write = |callbacks: &mut dyn AttentionCallbacks| {
                for (at, sums) in (0..).zip(&self.sums[..count]) {
                    let outputs = OutputElements { row: (own, down), column: (half, 8 * at), count: 2 };
                    callbacks.epilogue(outputs, &sums[2 * side..2 * side + 2], weights);
                }
            };
            if !is_ragged {
                write(callbacks);
                continue;
            }
            let rows = self.attention.rows as i32 - down as i32;
            let inside = callbacks.builder().compare(CmpOp::Lt, Ty::S32, own, rows);
            let then = callbacks.nested_block(&mut write);
            let guard = GuardPredicate::on(inside);
            callbacks.builder().push_stmt(PtxStmt::If { guard, then, otherwise: Vec::new() });
        }
    }
}
