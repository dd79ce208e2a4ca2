//! Results on their way to memory: boxes of 16 rows by 128 bytes in shared memory, each of one warp.
//!
//! Of a fragment a thread has two neighbours in each of two rows, which are 4 or 8 bytes of a line of memory. So a warp lays out its results in boxes, from where
//! whole lines go on. In a box, chunk `c` of 16 bytes of row `r` lies at `c ^ (r mod 8)`: the order of the copy engine's tiles with lines as long, in
//! which neither lanes that write nor lanes that read meet in a bank.

use ptx_asm::{AddressOperand, CmpOp, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, Regs, StateSpace, Ty};

/// Rows of a box: those of a fragment.
pub(super) const ROWS: u32 = 16;
/// Bytes of a row.
pub(super) const LINE: u32 = 128;
/// Bytes of a box.
pub(super) const BYTES: u32 = ROWS * LINE;
/// What boxes have to be aligned to: what their order repeats after.
pub(super) const ALIGN: u32 = 1024;

/// Columns of a fragment.
const COLUMNS: u32 = 8;

/// How many fragments beside each other fill a box with elements of a type.
pub(super) fn fragments(element: Ty) -> usize {
    (LINE / element.bytes() / COLUMNS) as usize
}

/// What goes into a box.
pub(super) struct StagedResults {
    /// The number of the store.
    pub(super) store: usize,
    /// The row and the column of its first element behind the warp's.
    pub(super) at: [u32; 2],
    /// Of fragments beside each other, the four results of a thread.
    pub(super) values: Vec<[Reg; 4]>,
}

impl StagedResults {
    /// Bytes of a row that are in use.
    pub(super) fn line(&self, element: Ty) -> u32 {
        self.values.len() as u32 * COLUMNS * element.bytes()
    }
}

/// How a lane writes results of a type into boxes. Addresses are those of the first fragment in the warp's first box.
pub(super) enum StagingWriter {
    /// Of 16 bits, four matrices at a time: lane `8 m + r` says where row `r` of matrix `m` goes.
    Matrices(Reg),
    /// Of 16 bits, two at a time.
    Words(Reg),
    /// Of 32 bits, two at a time. They are 8 bytes, so half of the lanes write at once, of four rows: these write four different fragments.
    Pairs {
        first: Reg,
        /// Whether this lane's row is odd: it begins with the fragment two further.
        is_odd: Reg,
    },
}

impl StagingWriter {
    /// Into the boxes from an address on, which is aligned.
    pub(super) fn new(
        b: &mut PtxBuilder,
        element: Ty,
        lane: Reg,
        boxes: Reg,
        has_stmatrix: bool,
    ) -> StagingWriter {
        match element.bytes() {
            2 if has_stmatrix => StagingWriter::Matrices(of_matrices(b, lane, boxes)),
            2 => StagingWriter::Words(of_pieces(b, lane, boxes, 4)),
            _ => {
                let row = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
                let odd = b.binary(PtxBinaryOp::And, Ty::B32, row, 1_u32);
                let first = of_pieces(b, lane, boxes, 8);
                let first = further(b, first, 4, odd);
                StagingWriter::Pairs { first, is_odd: b.compare(CmpOp::Ne, Ty::U32, odd, 0_u32) }
            }
        }
    }

    /// Writes the results of a part into a box.
    pub(super) fn write(&self, b: &mut PtxBuilder, part: &StagedResults, number: u32) {
        match *self {
            StagingWriter::Matrices(first) => write_matrices(b, first, part, number),
            StagingWriter::Words(first) => write_words(b, first, part, number),
            StagingWriter::Pairs { first, is_odd } => write_pairs(b, (first, is_odd), part, number),
        }
    }
}

/// An address in the first box, in another one.
fn in_box(address: Reg, number: u32) -> AddressOperand {
    AddressOperand::at(address).plus((number * BYTES) as i32)
}

/// An address so many chunks further, whatever they are exchanged by.
fn chunks(b: &mut PtxBuilder, address: Reg, count: u32) -> Reg {
    match count {
        0 => address,
        _ => b.binary(PtxBinaryOp::Xor, Ty::B32, address, 16 * count),
    }
}

/// An address so many times some chunks further.
fn further(b: &mut PtxBuilder, address: Reg, count: u32, times: Reg) -> Reg {
    let bytes = b.binary(PtxBinaryOp::Mul, Ty::U32, times, 16 * count);
    b.binary(PtxBinaryOp::Xor, Ty::B32, address, bytes)
}

/// Where the lane's row of four matrices goes: of the first two the upper and the lower eight rows, then those of the next columns.
fn of_matrices(b: &mut PtxBuilder, lane: Reg, boxes: Reg) -> Reg {
    let row = b.binary(PtxBinaryOp::And, Ty::B32, lane, ROWS - 1);
    let side = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, ROWS.ilog2());
    let exchange = b.binary(PtxBinaryOp::And, Ty::B32, lane, 7_u32);
    let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, side, exchange);
    let line = b.mul_add(Ty::U32, row, LINE, boxes);
    b.mul_add(Ty::U32, chunk, 16_u32, line)
}

/// Where the lane's two results of the first row go, which are so many bytes.
fn of_pieces(b: &mut PtxBuilder, lane: Reg, boxes: Reg, bytes: u32) -> Reg {
    let row = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
    let pair = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
    let in_row = b.binary(PtxBinaryOp::Mul, Ty::U32, pair, bytes);
    let exchange = b.binary(PtxBinaryOp::Mul, Ty::U32, row, 16_u32);
    let in_row = b.binary(PtxBinaryOp::Xor, Ty::B32, in_row, exchange);
    let line = b.mul_add(Ty::U32, row, LINE, boxes);
    b.add(Ty::U32, line, in_row)
}

fn write_matrices(b: &mut PtxBuilder, first: Reg, part: &StagedResults, number: u32) {
    for (at, pair) in (0..).zip(part.values.chunks(2)) {
        let from: Regs = pair.iter().flat_map(|values| words(b, values)).collect();
        let to = in_box(chunks(b, first, 2 * at), number);
        b.push(Inst::Stmatrix { from, to });
    }
}

fn write_words(b: &mut PtxBuilder, first: Reg, part: &StagedResults, number: u32) {
    for (at, values) in (0..).zip(&part.values) {
        let to = in_box(chunks(b, first, at), number);
        let [upper, lower] = words(b, values);
        b.store(StateSpace::Shared, Ty::B32, to, upper);
        b.store(StateSpace::Shared, Ty::B32, to.plus((8 * LINE) as i32), lower);
    }
}

/// Two neighbours each, of the upper and of the lower row.
fn words(b: &mut PtxBuilder, &[left, right, below_left, below_right]: &[Reg; 4]) -> [Reg; 2] {
    [[left, right], [below_left, below_right]].map(|[low, high]| b.pack(RegClass::B32, low, high))
}

/// Of each two fragments that are two apart, lanes of odd rows write the second one first.
fn write_pairs(b: &mut PtxBuilder, (first, is_odd): (Reg, Reg), part: &StagedResults, number: u32) {
    let (near, far) = part.values.split_at(part.values.len() / 2);
    for (at, (near, far)) in (0..).zip(near.iter().zip(far)) {
        let one = chunks(b, first, 2 * at);
        let other = chunks(b, one, 4);
        for (to, [even, odd]) in [(one, [near, far]), (other, [far, near])] {
            let values: Vec<Reg> =
                even.iter().zip(odd).map(|(&even, &odd)| b.select(Ty::F32, is_odd, odd, even)).collect();
            let to = in_box(to, number);
            b.store_vector(StateSpace::Shared, Ty::F32, to, &values[..2]);
            b.store_vector(StateSpace::Shared, Ty::F32, to.plus((8 * LINE) as i32), &values[2..]);
        }
    }
}
