//! The accumulators of a thread: their initial values and their epilogue.
//!
//! Tensor cores hold accumulators in fragments of 16 rows by 8 columns. A thread has two adjacent elements of
//! a row, and the two eight rows below.

use ptx_asm::{CmpOp, PtxBinaryOp, PtxBuilder, Reg, RegClass, Ty};

use super::staging::{self, StagedResults};
use super::tile_scheduler::TileCoord;
use super::{Matmul, MatmulCallbacks, OutputElements, when};

/// Accumulator registers: four per fragment.
pub(super) type Accumulators = Vec<[Reg; 4]>;

/// The positions of a thread's accumulators in the tile.
pub(super) struct AccumulatorLayout {
    /// Row and column of the warp's first output in the tile; the column is even.
    pub(super) corner: [Reg; 2],
    /// Row and column of the thread's first output in the tile.
    first: [Reg; 2],
    /// Offset of each fragment in rows and columns. Adjacent fragments are consecutive.
    fragments: Vec<[u32; 2]>,
    /// Rows and columns of the tile of a block or cluster. M and N need not be multiples of them.
    tile: [u32; 2],
}

/// Receives adjacent outputs, the index of their fragment, and the index of the first one among the
/// fragment's four.
type ElementVisitor<'a> = dyn FnMut(&mut dyn MatmulCallbacks, OutputElements, usize, usize) + 'a;

/// Position of the tile in the output, in registers.
struct TileOrigin {
    row: Reg,
    column: Reg,
    /// Half of the column.
    half: Reg,
}

impl AccumulatorLayout {
    /// The layout of a warp whose first output is at `corner`.
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

    /// Allocates the accumulators and sets them to their initial values.
    pub(super) fn init(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
    ) -> Accumulators {
        let b = callbacks.builder();
        let mut zeros = || [(); 4].map(|()| b.mov(RegClass::F32, 0_f32));
        let accumulators: Accumulators = self.fragments.iter().map(|_| zeros()).collect();
        self.for_each_output(callbacks, matmul, coord, &mut |callbacks, outputs, at, first| {
            for (n, value) in callbacks.prologue(outputs).into_iter().flatten().enumerate() {
                callbacks.builder().set(accumulators[at][first + n], value);
            }
        });
        accumulators
    }

    /// Writes the epilogue of each output, with stores from registers.
    pub(super) fn store_from_registers(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        accumulators: &Accumulators,
    ) {
        self.for_each_output(callbacks, matmul, coord, &mut |callbacks, outputs, at, first| {
            callbacks.epilogue(outputs, &accumulators[at][first..first + outputs.count]);
        });
    }

    /// Writes the epilogue for results that are staged in shared memory, one staging tile at a time. Results
    /// outside of the output are 0.
    pub(super) fn staged_results(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        accumulators: &Accumulators,
        put: &mut dyn FnMut(&mut dyn MatmulCallbacks, StagedResults),
    ) {
        let origin = self.origin(callbacks.builder(), coord);
        // The number of fragments that fill a staging tile with the narrowest results.
        let most = matmul.outputs.iter().map(|store| staging::fragments(store.element)).max().unwrap_or(1);
        let layout: Vec<_> = self.fragments.iter().copied().zip(accumulators.iter().copied()).collect();
        let rows = layout.chunk_by(|(one, _), (next, _)| one[0] == next[0]);
        for fragments in rows.flat_map(|row| row.chunks(most)) {
            let mut results: Vec<Vec<[Reg; 4]>> = vec![Vec::new(); matmul.outputs.len()];
            for &(fragment, accumulators) in fragments {
                self.results(callbacks, matmul, &origin, fragment, accumulators, &mut results);
            }
            for (store, values) in results.into_iter().enumerate() {
                let width = staging::fragments(matmul.outputs[store].element);
                for (values, (at, _)) in values.chunks(width).zip(fragments.iter().step_by(width)) {
                    put(callbacks, StagedResults { store, at: *at, values: values.to_vec() });
                }
            }
        }
    }

    /// The epilogue's values of a fragment: four results per output.
    fn results(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        origin: &TileOrigin,
        fragment: [u32; 2],
        accumulators: [Reg; 4],
        results: &mut [Vec<[Reg; 4]>],
    ) {
        let halves = [0, 2].map(|first| {
            let outputs = outputs(origin, fragment, first, 2);
            let accumulators = &accumulators[first..first + 2];
            match self.inside(callbacks.builder(), matmul, origin, outputs) {
                None => callbacks.epilogue_values(outputs, accumulators),
                Some(inside) => epilogue_values_inside(callbacks, matmul, inside, outputs, accumulators),
            }
        });
        let [upper, lower] = halves;
        for ((results, upper), lower) in results.iter_mut().zip(upper).zip(lower) {
            results.push([upper[0], upper[1], lower[0], lower[1]]);
        }
    }

    /// Visits the outputs that exist, two adjacent ones at a time where possible.
    fn for_each_output(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        visit: &mut ElementVisitor<'_>,
    ) {
        // If N is even, two adjacent outputs both exist or neither does.
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

    /// Predicate for outputs that exist; `None` if all of them do.
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

/// `count` adjacent outputs of a fragment, from number `first` of the thread's four elements on.
fn outputs(origin: &TileOrigin, [down, along]: [u32; 2], first: usize, count: usize) -> OutputElements {
    let (down, along) = (down + 8 * (first / 2) as u32, along + (first % 2) as u32);
    OutputElements { row: (origin.row, down), column: (origin.half, along), count }
}

/// The epilogue's values where a predicate is true, else zeros.
fn epilogue_values_inside(
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

/// Whether `start + offset < end`.
pub(super) fn below(b: &mut PtxBuilder, start: Reg, offset: u32, end: u32) -> Reg {
    b.compare(CmpOp::Lt, Ty::S32, start, end as i32 - offset as i32)
}

/// The conjunction of two optional predicates.
pub(super) fn both(b: &mut PtxBuilder, one: Option<Reg>, other: Option<Reg>) -> Option<Reg> {
    match (one, other) {
        (Some(one), Some(other)) => Some(b.binary(PtxBinaryOp::And, Ty::Pred, one, other)),
        (one, other) => one.or(other),
    }
}
