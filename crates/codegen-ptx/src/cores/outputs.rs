//! The outputs of a thread: where their sums are, what they begin with, and what becomes of them.
//!
//! Tensor cores hold sums in fragments of 16 rows by 8 columns. Of each a thread has two neighbours in a row, and those eight rows below.

use ptx_asm::{CmpOp, PtxBinaryOp, PtxBuilder, Reg, RegClass, Ty};

use super::boxes::{self, Part};
use super::place::Place;
use super::{Outputs, Product, Surroundings, when};

/// Where sums are held: by fragment, the four outputs of a thread.
pub(super) type Sums = Vec<[Reg; 4]>;

/// The outputs that a thread holds.
pub(super) struct Held {
    /// The row and the column of the warp's first one in the tile; the column is even.
    pub(super) corner: [Reg; 2],
    /// Those of the thread's first one.
    first: [Reg; 2],
    /// How many rows and columns behind that its first one of each fragment lies. Fragments beside each other follow each other.
    fragments: Vec<[u32; 2]>,
    /// Rows and columns of what one block or more compute together: what the sizes of the product may not be multiples of.
    tile: [u32; 2],
}

/// Takes outputs that are done together, the fragment that they are of, and which of its four the first one is.
type Visit<'a> = dyn FnMut(&mut dyn Surroundings, Outputs, usize, usize) + 'a;

/// Where the tile is, in a thread's registers.
struct Origin {
    row: Reg,
    column: Reg,
    /// Half of the column.
    half: Reg,
}

impl Held {
    /// Of a warp at a row and a column of the tile.
    pub(super) fn new(
        b: &mut PtxBuilder,
        lane: Reg,
        corner: [Reg; 2],
        fragments: Vec<[u32; 2]>,
        tile: [u32; 2],
    ) -> Held {
        let line = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
        let pair = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
        let first = [b.add(Ty::U32, corner[0], line), b.mul_add(Ty::U32, pair, 2_u32, corner[1])];
        Held { corner, first, fragments, tile }
    }

    /// The registers of the sums, with what they begin with.
    pub(super) fn start(&self, around: &mut dyn Surroundings, product: &Product, place: &Place) -> Sums {
        let b = around.builder();
        let mut zeros = || [(); 4].map(|()| b.mov(RegClass::F32, 0_f32));
        let sums: Sums = self.fragments.iter().map(|_| zeros()).collect();
        self.each(around, product, place, &mut |around, outputs, at, first| {
            for (n, value) in around.start(outputs).into_iter().flatten().enumerate() {
                around.builder().set(sums[at][first + n], value);
            }
        });
        sums
    }

    /// What becomes of the sums, each by itself.
    pub(super) fn finish(
        &self,
        around: &mut dyn Surroundings,
        product: &Product,
        place: &Place,
        sums: &Sums,
    ) {
        self.each(around, product, place, &mut |around, outputs, at, first| {
            around.finish(outputs, &sums[at][first..first + outputs.count]);
        });
    }

    /// What becomes of the sums, a box of results after the other. What is no output is 0.
    pub(super) fn parts(
        &self,
        around: &mut dyn Surroundings,
        product: &Product,
        place: &Place,
        sums: &Sums,
        put: &mut dyn FnMut(&mut dyn Surroundings, Part),
    ) {
        let origin = self.origin(around.builder(), place);
        // As many fragments as one box holds of the narrowest results.
        let most = product.stored.iter().map(|store| boxes::fragments(store.element)).max().unwrap_or(1);
        let held: Vec<_> = self.fragments.iter().copied().zip(sums.iter().copied()).collect();
        let rows = held.chunk_by(|(one, _), (next, _)| one[0] == next[0]);
        for fragments in rows.flat_map(|row| row.chunks(most)) {
            let mut results: Vec<Vec<[Reg; 4]>> = vec![Vec::new(); product.stored.len()];
            for fragment in fragments {
                self.results(around, product, &origin, *fragment, &mut results);
            }
            for (store, values) in results.into_iter().enumerate() {
                let width = boxes::fragments(product.stored[store].element);
                for (values, (at, _)) in values.chunks(width).zip(fragments.iter().step_by(width)) {
                    put(around, Part { store, at: *at, values: values.to_vec() });
                }
            }
        }
    }

    /// What becomes of the sums of a fragment: of each store the four results.
    fn results(
        &self,
        around: &mut dyn Surroundings,
        product: &Product,
        origin: &Origin,
        (fragment, sums): ([u32; 2], [Reg; 4]),
        results: &mut [Vec<[Reg; 4]>],
    ) {
        let halves = [0, 2].map(|first| {
            let outputs = outputs(origin, fragment, first, 2);
            let sums = &sums[first..first + 2];
            match self.inside(around.builder(), product, origin, outputs) {
                None => around.results(outputs, sums),
                Some(inside) => results_inside(around, product, inside, outputs, sums),
            }
        });
        let [upper, lower] = halves;
        for ((results, upper), lower) in results.iter_mut().zip(upper).zip(lower) {
            results.push([upper[0], upper[1], lower[0], lower[1]]);
        }
    }

    /// Visits the outputs, of which two in a row are neighbours, where they are outputs at all.
    fn each(&self, around: &mut dyn Surroundings, product: &Product, place: &Place, visit: &mut Visit<'_>) {
        // Two neighbours are both outputs or neither, if the number of columns is even.
        let count = if product.sizes[1].is_multiple_of(2) { 2 } else { 1 };
        let origin = self.origin(around.builder(), place);
        for (at, &fragment) in self.fragments.iter().enumerate() {
            for first in (0..4).step_by(count) {
                let outputs = outputs(&origin, fragment, first, count);
                match self.inside(around.builder(), product, &origin, outputs) {
                    None => visit(around, outputs, at, first),
                    Some(inside) => when(around, inside, &mut |around| visit(around, outputs, at, first)),
                }
            }
        }
    }

    fn origin(&self, b: &mut PtxBuilder, place: &Place) -> Origin {
        let row = b.add(Ty::U32, place.row, self.first[0]);
        let column = b.add(Ty::U32, place.column, self.first[1]);
        Origin { row, column, half: b.binary(PtxBinaryOp::ShiftRight, Ty::U32, column, 1_u32) }
    }

    /// Whether they are outputs, where some may not be.
    fn inside(
        &self,
        b: &mut PtxBuilder,
        product: &Product,
        origin: &Origin,
        outputs: Outputs,
    ) -> Option<Reg> {
        let [rows, columns, _] = product.sizes;
        let row = (rows % self.tile[0] != 0).then(|| below(b, origin.row, outputs.row.1, rows));
        let column =
            (columns % self.tile[1] != 0).then(|| below(b, origin.column, outputs.column.1, columns));
        both(b, row, column)
    }
}

/// So many outputs from one of the four of a fragment on.
fn outputs(origin: &Origin, [down, along]: [u32; 2], first: usize, count: usize) -> Outputs {
    let (down, along) = (down + 8 * (first / 2) as u32, along + (first % 2) as u32);
    Outputs { row: (origin.row, down), column: (origin.half, along), count }
}

/// What becomes of sums where a predicate holds, else zeros.
fn results_inside(
    around: &mut dyn Surroundings,
    product: &Product,
    inside: Reg,
    outputs: Outputs,
    sums: &[Reg],
) -> Vec<Vec<Reg>> {
    let b = around.builder();
    let mut zeros = |class| sums.iter().map(|_| b.mov(class, 0_u32)).collect();
    let found: Vec<Vec<Reg>> = product.stored.iter().map(|store| zeros(store.element.class())).collect();
    when(around, inside, &mut |around| {
        let results = around.results(outputs, sums);
        for (&to, result) in found.iter().flatten().zip(results.into_iter().flatten()) {
            around.builder().set(to, result);
        }
    });
    found
}

/// Whether a number so much greater than one in a register is below an end.
pub(super) fn below(b: &mut PtxBuilder, start: Reg, offset: u32, end: u32) -> Reg {
    b.compare(CmpOp::Lt, Ty::S32, start, end as i32 - offset as i32)
}

/// Whether both predicates hold, if there are any.
pub(super) fn both(b: &mut PtxBuilder, one: Option<Reg>, other: Option<Reg>) -> Option<Reg> {
    match (one, other) {
        (Some(one), Some(other)) => Some(b.binary(PtxBinaryOp::And, Ty::Pred, one, other)),
        (one, other) => one.or(other),
    }
}
