//! Where results wait for the copy engine, which stores them as tiles.
//!
//! ```text
//! each warp of a consumer, for each of its boxes in turn:
//!   its first lane waits until the engine has read what was in the box; the lanes meet
//!   each lane writes its results into the box, and fences them, since the engine has its own path to memory; the lanes meet
//!   the first lane tells the engine where the box goes
//! ```
//!
//! Nobody waits for what is stored but before a box is written again, and at the end, so that the next tile is multiplied meanwhile. What lies beyond
//! the last row and column, the engine leaves out.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, PtxStmt, Reg, StateSpace, Ty,
};

use super::operand::Tensor;
use super::tile::{Tile, WARPS};
use crate::cores::boxes::{self, Part, Writer};
use crate::cores::outputs::{Held, Sums};
use crate::cores::place::Place;
use crate::cores::{Of, Product, Stored, Surroundings};

/// The most boxes of a warp: one is written while the other is read. More would take the room of a stage.
const MOST: u32 = 2;

impl Tile {
    /// The factors, and where results go if the copy engine stores them, as tensors.
    pub(crate) fn tensors(&self, product: &Product) -> Vec<Tensor> {
        let factors = self.factors(product).into_iter().flatten();
        factors.chain(stores(product).unwrap_or_default()).collect()
    }

    /// How many boxes each warp has: such a number that each tile begins with the first.
    fn boxes(&self, product: &Product) -> u32 {
        let bytes: u32 = product.stored.iter().map(|store| store.element.bytes()).sum();
        let uses = self.columns * bytes / boxes::LINE;
        (1..=MOST).rev().find(|boxes| uses.is_multiple_of(*boxes)).unwrap_or(1)
    }
}

/// Where results go as tensors of which a tile is a box, if there is something, and all batches can be axes.
fn stores(product: &Product) -> Option<Vec<Tensor>> {
    let [rows, columns, _] = product.sizes;
    let tensor = |store: &Stored| {
        let element = store.element.bytes();
        let tile = [boxes::LINE / element, boxes::ROWS];
        Some(Tensor::of(element, [columns, rows], store.stride, tile, store.batch.as_ref()?))
    };
    product.stored.iter().map(tensor).collect()
}

/// The boxes of a warp.
pub(super) struct Shelf {
    /// How many.
    count: u32,
    /// The address of the first.
    first: Reg,
    /// Whether this lane deals with the copy engine.
    tells: GuardPredicate,
    /// By store, the tensor map, and how results are written.
    stores: Vec<(Reg, Writer)>,
}

impl Shelf {
    /// Of a warp of the consumers; nothing if results are stored one by one.
    pub(super) fn new(
        b: &mut PtxBuilder,
        product: &Product,
        tile: &Tile,
        lane: Reg,
        warp: Reg,
    ) -> Option<Shelf> {
        stores(product).filter(|stores| !stores.is_empty())?;
        let count = tile.boxes(product);
        let all = b.shared(WARPS * tile.consumers * count * boxes::BYTES, boxes::ALIGN);
        let all = b.address(StateSpace::Shared, all);
        let first = b.mul_add(Ty::U32, warp, count * boxes::BYTES, all);
        let tells = GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, lane, 0_u32));
        let factors = 2;
        let mut store = |(at, store): (u32, &Stored)| {
            let map = b.map_address(factors + at);
            b.push(Inst::PrefetchTensorMap { map });
            (map, Writer::new(b, store.element, lane, first, true))
        };
        let stores = (0..).zip(&product.stored).map(&mut store).collect();
        Some(Shelf { count, first, tells, stores })
    }

    /// Stores what becomes of the sums of a tile.
    pub(super) fn finish(
        &self,
        around: &mut dyn Surroundings,
        product: &Product,
        place: &Place,
        held: &Held,
        sums: &Sums,
    ) {
        let batch: Vec<Vec<Reg>> =
            (0..self.stores.len()).map(|store| around.coordinates(Of::Stored(store))).collect();
        let mut uses = 0;
        held.parts(around, product, place, sums, &mut |around, part| {
            let b = around.builder();
            let row = b.add(Ty::U32, place.row, held.corner[0]);
            let at = [b.add(Ty::U32, row, part.at[0]), b.add(Ty::U32, place.column, part.at[1])];
            self.put(b, &part, uses % self.count, at, &batch[part.store]);
            uses += 1;
        });
    }

    /// Writes results into a box, and begins to store them at a row and a column.
    fn put(&self, b: &mut PtxBuilder, part: &Part, number: u32, [row, column]: [Reg; 2], batch: &[Reg]) {
        let (map, writer) = &self.stores[part.store];
        self.wait(b, self.count - 1);
        b.push(Inst::WarpBarrier);
        writer.write(b, part, number);
        b.push(Inst::FenceProxyAsync);
        b.push(Inst::WarpBarrier);
        let at = [column, row].iter().chain(batch).map(|&place| PtxOperand::Reg(place)).collect();
        let from = AddressOperand::at(self.first).plus((number * boxes::BYTES) as i32);
        b.when(self.tells, |b| {
            b.push(Inst::TmaStore { map: *map, at, from });
            b.push(Inst::TmaStoreCommit);
        });
    }

    /// Waits until at most so many boxes, the latest, are still to be read.
    pub(super) fn wait(&self, b: &mut PtxBuilder, pending: u32) {
        b.push_stmt(PtxStmt::Predicated(self.tells, Inst::TmaStoreWait { pending }));
    }
}
