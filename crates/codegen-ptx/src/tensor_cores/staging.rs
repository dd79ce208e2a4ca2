//! Epilogue staging tiles: 16 rows of 128 bytes in shared memory. Each warp has its own staging tiles.
//!
//! A thread holds two adjacent elements in each of two rows of a fragment, which is 4 or 8 bytes of a row in
//! memory. A warp therefore writes its results to staging tiles, from which whole rows are stored. In a
//! staging tile, chunk `c` of 16 bytes of row `r` lies at `c ^ (r mod 8)`. This is TMA's 128-byte swizzle,
//! with which neither writing nor reading has bank conflicts.

use ptx_asm::{AddressOperand, CmpOp, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, Regs, StateSpace, Ty};

/// Rows of a staging tile and of a fragment.
pub(super) const ROWS: u32 = 16;
/// Bytes of a row.
pub(super) const LINE: u32 = 128;
/// Bytes of a staging tile.
pub(super) const BYTES: u32 = ROWS * LINE;
/// Alignment of staging tiles: the period of the swizzle.
pub(super) const ALIGN: u32 = 1024;

/// Columns of a fragment.
const COLUMNS: u32 = 8;

/// Number of adjacent fragments that fill a staging tile with elements of this type.
pub(super) fn fragments(element: Ty) -> usize {
    (LINE / element.bytes() / COLUMNS) as usize
}

/// Results of a warp that go into one staging tile.
pub(super) struct StagedResults {
    /// Index of the output.
    pub(super) store: usize,
    /// Row and column of the first element, relative to the warp's.
    pub(super) at: [u32; 2],
    /// For each of the adjacent fragments, the four results of a thread.
    pub(super) values: Vec<[Reg; 4]>,
}

impl StagedResults {
    /// Bytes of a row that are in use.
    pub(super) fn line(&self, element: Ty) -> u32 {
        self.values.len() as u32 * COLUMNS * element.bytes()
    }
}

/// How a lane writes results to staging tiles. The registers hold the address of the first fragment in the
/// warp's first staging tile.
pub(super) enum StagingWriter {
    /// 16-bit results by `stmatrix`: lane `8 m + r` gives the address of row `r` of matrix `m`.
    Stmatrix(Reg),
    /// 16-bit results, two at a time.
    Words(Reg),
    /// 32-bit results, two at a time, which are 8 bytes. Half of the lanes write at once: the lanes of four
    /// rows. To avoid bank conflicts, lanes of odd rows write another fragment than lanes of even rows.
    Pairs {
        first: Reg,
        /// Whether the lane's row is odd. If it is, `first` is two fragments further.
        is_odd: Reg,
    },
}

impl StagingWriter {
    /// A writer for staging tiles at an address aligned to [`ALIGN`].
    pub(super) fn new(
        b: &mut PtxBuilder,
        element: Ty,
        lane: Reg,
        tiles: Reg,
        has_stmatrix: bool,
    ) -> StagingWriter {
        match element.bytes() {
            2 if has_stmatrix => StagingWriter::Stmatrix(stmatrix_address(b, lane, tiles)),
            2 => StagingWriter::Words(pair_address(b, lane, tiles, 4)),
            _ => {
                let row = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
                let odd = b.binary(PtxBinaryOp::And, Ty::B32, row, 1_u32);
                let first = pair_address(b, lane, tiles, 8);
                let first = move_by(b, first, 4, odd);
                StagingWriter::Pairs { first, is_odd: b.compare(CmpOp::Ne, Ty::U32, odd, 0_u32) }
            }
        }
    }

    /// Writes results to the staging tile of this index.
    pub(super) fn write(&self, b: &mut PtxBuilder, results: &StagedResults, number: u32) {
        match *self {
            StagingWriter::Stmatrix(first) => write_matrices(b, first, results, number),
            StagingWriter::Words(first) => write_words(b, first, results, number),
            StagingWriter::Pairs { first, is_odd } => write_pairs(b, first, is_odd, results, number),
        }
    }
}

/// The address in staging tile `number` at the position of `address` in the first.
fn in_tile(address: Reg, number: u32) -> AddressOperand {
    AddressOperand::at(address).plus((number * BYTES) as i32)
}

/// Moves a swizzled address by `count` chunks.
fn move_chunks(b: &mut PtxBuilder, address: Reg, count: u32) -> Reg {
    match count {
        0 => address,
        _ => b.binary(PtxBinaryOp::Xor, Ty::B32, address, 16 * count),
    }
}

/// Moves a swizzled address by `count` chunks `times` times.
fn move_by(b: &mut PtxBuilder, address: Reg, count: u32, times: Reg) -> Reg {
    let bytes = b.binary(PtxBinaryOp::Mul, Ty::U32, times, 16 * count);
    b.binary(PtxBinaryOp::Xor, Ty::B32, address, bytes)
}

/// The address of the lane's row for four matrices: the upper and lower eight rows of one fragment, then of
/// the next.
fn stmatrix_address(b: &mut PtxBuilder, lane: Reg, tiles: Reg) -> Reg {
    let row = b.binary(PtxBinaryOp::And, Ty::B32, lane, ROWS - 1);
    let side = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, ROWS.ilog2());
    let swizzle = b.binary(PtxBinaryOp::And, Ty::B32, lane, 7_u32);
    let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, side, swizzle);
    let line = b.mul_add(Ty::U32, row, LINE, tiles);
    b.mul_add(Ty::U32, chunk, 16_u32, line)
}

/// The address of the lane's two results in the first row, which take `bytes` bytes.
fn pair_address(b: &mut PtxBuilder, lane: Reg, tiles: Reg, bytes: u32) -> Reg {
    let row = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
    let pair = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
    let in_row = b.binary(PtxBinaryOp::Mul, Ty::U32, pair, bytes);
    let swizzle = b.binary(PtxBinaryOp::Mul, Ty::U32, row, 16_u32);
    let in_row = b.binary(PtxBinaryOp::Xor, Ty::B32, in_row, swizzle);
    let line = b.mul_add(Ty::U32, row, LINE, tiles);
    b.add(Ty::U32, line, in_row)
}

fn write_matrices(b: &mut PtxBuilder, first: Reg, results: &StagedResults, number: u32) {
    for (at, pair) in (0..).zip(results.values.chunks(2)) {
        let from: Regs = pair.iter().flat_map(|values| words(b, values)).collect();
        let to = in_tile(move_chunks(b, first, 2 * at), number);
        b.push(Inst::Stmatrix { from, to });
    }
}

fn write_words(b: &mut PtxBuilder, first: Reg, results: &StagedResults, number: u32) {
    for (at, values) in (0..).zip(&results.values) {
        let to = in_tile(move_chunks(b, first, at), number);
        let [upper, lower] = words(b, values);
        b.store(StateSpace::Shared, Ty::B32, to, upper);
        b.store(StateSpace::Shared, Ty::B32, to.plus((8 * LINE) as i32), lower);
    }
}

/// Packs adjacent results of the upper row, and of the lower row.
fn words(b: &mut PtxBuilder, &[left, right, below_left, below_right]: &[Reg; 4]) -> [Reg; 2] {
    [[left, right], [below_left, below_right]].map(|[low, high]| b.pack(RegClass::B32, low, high))
}

/// Lanes of odd rows begin with the fragments of the second half, so they never write the fragment that the
/// lanes of even rows write at the same time.
fn write_pairs(b: &mut PtxBuilder, first: Reg, is_odd: Reg, results: &StagedResults, number: u32) {
    let (near, far) = results.values.split_at(results.values.len() / 2);
    for (at, (near, far)) in (0..).zip(near.iter().zip(far)) {
        let one = move_chunks(b, first, 2 * at);
        let other = move_chunks(b, one, 4);
        for (to, [even, odd]) in [(one, [near, far]), (other, [far, near])] {
            let values: Vec<Reg> =
                even.iter().zip(odd).map(|(&even, &odd)| b.select(Ty::F32, is_odd, odd, even)).collect();
            let to = in_tile(to, number);
            b.store_vector(StateSpace::Shared, Ty::F32, to, &values[..2]);
            b.store_vector(StateSpace::Shared, Ty::F32, to.plus((8 * LINE) as i32), &values[2..]);
        }
    }
}
