//! The outputs of a thread: where their sums are, what they begin with, and what becomes of them.
//!
//! Tensor cores hold sums in fragments of 16 rows by 8 columns. Of each a thread has two neighbours in a row, and those eight rows below.

use ptx_asm::{Binary, Builder, Class, Cmp, Reg, Ty};

use super::place::Place;
use super::{Outputs, Product, Surroundings, when};

/// Where sums are held: by fragment, the four outputs of a thread.
pub(super) type Sums = Vec<[Reg; 4]>;

/// The outputs that a thread holds.
pub(super) struct Held {
    /// The row and the column of its first one in the tile; the column is even.
    pub(super) first: [Reg; 2],
    /// How many rows and columns behind that its first one of each fragment lies.
    pub(super) fragments: Vec<[u32; 2]>,
    /// Rows and columns of what one block or more compute together: what the sizes of the product may not be multiples of.
    pub(super) tile: [u32; 2],
}

/// Takes outputs that are done together, the fragment that they are of, and which of its four the first one is.
type Visit<'a> = dyn FnMut(&mut dyn Surroundings, Outputs, usize, usize) + 'a;

impl Held {
    /// The registers of the sums, with what they begin with.
    pub(super) fn start(&self, around: &mut dyn Surroundings, product: &Product, place: &Place) -> Sums {
        let b = around.builder();
        let mut zeros = || [(); 4].map(|()| b.moved(Class::F32, 0_f32));
        let sums: Sums = self.fragments.iter().map(|_| zeros()).collect();
        self.each(around, product, place, &mut |around, outputs, at, first| {
            for (n, value) in around.start(outputs).into_iter().flatten().enumerate() {
                around.builder().set(sums[at][first + n], value);
            }
        });
        sums
    }

    /// What becomes of the sums.
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

    /// Visits the outputs, of which two in a row are neighbours, where they are outputs at all.
    fn each(&self, around: &mut dyn Surroundings, product: &Product, place: &Place, visit: &mut Visit<'_>) {
        let [rows, columns, _] = product.sizes;
        // Two neighbours are both outputs or neither, if the number of columns is even.
        let count = if columns % 2 == 0 { 2 } else { 1 };
        let b = around.builder();
        let row = b.add(Ty::U32, place.row, self.first[0]);
        let column = b.add(Ty::U32, place.column, self.first[1]);
        let half = b.binary(Binary::ShiftRight, Ty::U32, column, 1_u32);
        for (at, fragment) in self.fragments.iter().enumerate() {
            for first in (0..4).step_by(count) {
                let b = around.builder();
                let (down, along) = (fragment[0] + 8 * (first / 2) as u32, fragment[1] + (first % 2) as u32);
                let below = |b: &mut Builder, start, offset: u32, end: u32| {
                    b.compare(Cmp::Lt, Ty::S32, start, end as i32 - offset as i32)
                };
                let inside_rows = (rows % self.tile[0] != 0).then(|| below(b, row, down, rows));
                let inside_columns = (columns % self.tile[1] != 0).then(|| below(b, column, along, columns));
                let inside = match (inside_rows, inside_columns) {
                    (Some(row), Some(column)) => Some(b.binary(Binary::And, Ty::Pred, row, column)),
                    (row, column) => row.or(column),
                };
                let outputs = Outputs { row: (row, down), column: (half, along), count };
                match inside {
                    None => visit(around, outputs, at, first),
                    Some(inside) => when(around, inside, &mut |around| visit(around, outputs, at, first)),
                }
            }
        }
    }
}
