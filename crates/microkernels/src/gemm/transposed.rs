//! Products that are computed transposed: the epilogue reads their sums from scratch memory.

use std::ops::Range;

use super::GemmCall;
use crate::blocking::{RowTiles, cut};
use crate::simd::{MAX_LANES, Simd};

impl GemmCall<'_> {
    /// Runs the epilogue on the sums of a transposed product, for some rows and columns of the problem.
    #[inline(always)]
    pub(super) unsafe fn transposed_epilogue<V: Simd>(&self, rows: Range<usize>, columns: Range<usize>) {
        let Some(epilogue) = &self.gemm.epilogue else {
            unreachable!("transposed products have an epilogue");
        };
        let accumulators = self.scratch::<V::Element>(self.layout.accumulators);
        let tiles = RowTiles::new(rows, V::SHAPE.accumulator_rows());
        for columns in cut(columns, self.width) {
            for t in 0..tiles.count {
                let rows = tiles.rows(t);
                // SAFETY: the caller's promise; the sums of these rows and columns were computed.
                unsafe {
                    self.transpose_sums::<V>(&rows, &columns, accumulators);
                    epilogue.run(self.base.scratch.cast(), accumulators.cast(), rows, columns.clone());
                }
            }
        }
    }

    /// Copies the sums of some rows and columns of the problem, which are columns and rows of the product.
    #[inline(always)]
    unsafe fn transpose_sums<V: Simd>(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        to: *mut V::Element,
    ) {
        for rows_at in rows.clone().step_by(V::LANES) {
            for columns_at in columns.clone().step_by(V::LANES) {
                let lanes = V::LANES.min(rows.end - rows_at);
                // SAFETY: the caller's promise; scratch memory has a region for the accumulators of a tile,
                // whose rows have whole vectors.
                unsafe {
                    let mut block = [V::zero(); MAX_LANES];
                    for (i, vector) in block.iter_mut().enumerate().take(V::LANES) {
                        if columns_at + i < columns.end {
                            let (from, _) = self.sums::<V>(columns_at + i, rows_at);
                            *vector = V::load_masked(from, V::mask(lanes));
                        }
                    }
                    V::transpose(&mut block);
                    let to = to.add((rows_at - rows.start) * self.width + columns_at - columns.start);
                    for (i, vector) in block.iter().enumerate().take(V::LANES) {
                        if i < lanes {
                            V::store(to.add(i * self.width), *vector);
                        }
                    }
                }
            }
        }
    }
}
