//! The outputs of a thread: where their sums are, what they begin with, and what becomes of them.
//!
//! Tensor cores hold sums in fragments of 16 rows by 8 columns. Of each a thread has two neighbours in a row, and those eight rows below.

use ptx_asm::{CmpOp, PtxBinaryOp, PtxBuilder, Reg, RegClass, Ty};

use super::staging::{self, StagedResults};
use super::tile_scheduler::TileCoord;
use super::{Matmul, MatmulCallbacks, OutputElements, when};

/// Where sums are held: by fragment, the four outputs of a thread.
pub(super) type Accumulators = Vec<[Reg; 4]>;

/// The outputs that a thread holds.
pub(super) struct AccumulatorLayout {
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
type ElementVisitor<'a> = dyn FnMut(&mut dyn MatmulCallbacks, OutputElements, usize, usize) + 'a;

/// Where the tile is, in a thread's registers.
struct TileOrigin {
    row: Reg,
    column: Reg,
    /// Half of the column.
    half: Reg,
}

impl AccumulatorLayout {
    /// Of a warp at a row and a column of the tile.
    pub(super) fn new(
        b: &mut PtxBuilder,
        lane: Reg,
        corner: [Reg; 2],
        fragments: Vec<[u32; 2]>,
        tile: [u32; 2],
    ) -> AccumulatorLayout {
        let line = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
        let pair = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
        let first = [b.add(Ty::U32, corner[0], line), b.mul_add(Ty::U32, pair, 2_u32, corner[1])];
        AccumulatorLayout { corner, first, fragments, tile }
    }

    /// The registers of the sums, with what they begin with.
    pub(super) fn start(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
    ) -> Accumulators {
        let b = callbacks.builder();
        let mut zeros = || [(); 4].map(|()| b.mov(RegClass::F32, 0_f32));
        let accumulators: Accumulators = self.fragments.iter().map(|_| zeros()).collect();
        self.each(callbacks, matmul, coord, &mut |callbacks, outputs, at, first| {
            for (n, value) in callbacks.prologue(outputs).into_iter().flatten().enumerate() {
                callbacks.builder().set(accumulators[at][first + n], value);
            }
        });
        accumulators
    }

    /// What becomes of the sums, each by itself.
    pub(super) fn finish(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        accumulators: &Accumulators,
    ) {
        self.each(callbacks, matmul, coord, &mut |callbacks, outputs, at, first| {
            callbacks.epilogue(outputs, &accumulators[at][first..first + outputs.count]);
        });
    }

    /// What becomes of the sums, a box of results after the other. What is no output is 0.
    pub(super) fn parts(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        accumulators: &Accumulators,
        put: &mut dyn FnMut(&mut dyn MatmulCallbacks, StagedResults),
    ) {
        let origin = self.origin(callbacks.builder(), coord);
        // As many fragments as one box holds of the narrowest results.
        let most = matmul.outputs.iter().map(|store| staging::fragments(store.element)).max().unwrap_or(1);
        let layout: Vec<_> = self.fragments.iter().copied().zip(accumulators.iter().copied()).collect();
        let rows = layout.chunk_by(|(one, _), (next, _)| one[0] == next[0]);
        for fragments in rows.flat_map(|row| row.chunks(most)) {
            let mut results: Vec<Vec<[Reg; 4]>> = vec![Vec::new(); matmul.outputs.len()];
            for fragment in fragments {
                self.results(callbacks, matmul, &origin, *fragment, &mut results);
            }
            for (store, values) in results.into_iter().enumerate() {
                let width = staging::fragments(matmul.outputs[store].element);
                for (values, (at, _)) in values.chunks(width).zip(fragments.iter().step_by(width)) {
                    put(callbacks, StagedResults { store, at: *at, values: values.to_vec() });
                }
            }
        }
    }

    /// What becomes of the sums of a fragment: of each store the four results.
    fn results(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        origin: &TileOrigin,
        (fragment, accumulators): ([u32; 2], [Reg; 4]),
        results: &mut [Vec<[Reg; 4]>],
    ) {
        let halves = [0, 2].map(|first| {
            let outputs = outputs(origin, fragment, first, 2);
            let accumulators = &accumulators[first..first + 2];
            match self.inside(callbacks.builder(), matmul, origin, outputs) {
                None => callbacks.epilogue_values(outputs, accumulators),
                Some(inside) => results_inside(callbacks, matmul, inside, outputs, accumulators),
            }
        });
        let [upper, lower] = halves;
        for ((results, upper), lower) in results.iter_mut().zip(upper).zip(lower) {
            results.push([upper[0], upper[1], lower[0], lower[1]]);
        }
    }

    /// Visits the outputs, of which two in a row are neighbours, where they are outputs at all.
    fn each(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        visit: &mut ElementVisitor<'_>,
    ) {
        // Two neighbours are both outputs or neither, if the number of columns is even.
        let count = if matmul.sizes[1].is_multiple_of(2) { 2 } else { 1 };
        let origin = self.origin(callbacks.builder(), coord);
        for (at, &fragment) in self.fragments.iter().enumerate() {
            for first in (0..4).step_by(count) {
                let outputs = outputs(&origin, fragment, first, count);
                match self.inside(callbacks.builder(), matmul, &origin, outputs) {
                    None => visit(callbacks, outputs, at, first),
                    Some(inside) => {
                        when(callbacks, inside, &mut |callbacks| visit(callbacks, outputs, at, first))
                    }
                }
            }
        }
    }

    fn origin(&self, b: &mut PtxBuilder, coord: &TileCoord) -> TileOrigin {
        let row = b.add(Ty::U32, coord.row, self.first[0]);
        let column = b.add(Ty::U32, coord.column, self.first[1]);
        TileOrigin { row, column, half: b.binary(PtxBinaryOp::ShiftRight, Ty::U32, column, 1_u32) }
    }

    /// Whether they are outputs, where some may not be.
    fn inside(
        &self,
        b: &mut PtxBuilder,
        matmul: &Matmul,
        origin: &TileOrigin,
        outputs: OutputElements,
    ) -> Option<Reg> {
        let [rows, columns, _] = matmul.sizes;
        let row = (rows % self.tile[0] != 0).then(|| below(b, origin.row, outputs.row.1, rows));
        let column =
            (columns % self.tile[1] != 0).then(|| below(b, origin.column, outputs.column.1, columns));
        both(b, row, column)
    }
}

/// So many outputs from one of the four of a fragment on.
fn outputs(origin: &TileOrigin, [down, along]: [u32; 2], first: usize, count: usize) -> OutputElements {
    let (down, along) = (down + 8 * (first / 2) as u32, along + (first % 2) as u32);
    OutputElements { row: (origin.row, down), column: (origin.half, along), count }
}

/// What becomes of sums where a predicate holds, else zeros.
fn results_inside(
    callbacks: &mut dyn MatmulCallbacks,
    matmul: &Matmul,
    inside: Reg,
    outputs: OutputElements,
    accumulators: &[Reg],
) -> Vec<Vec<Reg>> {
    let b = callbacks.builder();
    let mut zeros = |class| accumulators.iter().map(|_| b.mov(class, 0_u32)).collect();
    let found: Vec<Vec<Reg>> = matmul.outputs.iter().map(|store| zeros(store.element.class())).collect();
    when(callbacks, inside, &mut |callbacks| {
        let results = callbacks.epilogue_values(outputs, accumulators);
        for (&to, result) in found.iter().flatten().zip(results.into_iter().flatten()) {
            callbacks.builder().set(to, result);
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
