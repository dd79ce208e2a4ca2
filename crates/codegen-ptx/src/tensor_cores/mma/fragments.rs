//! The part of a tile that a warp has: which of its elements lanes load, multiply and hold.
//!
//! A fragment is 16 by 8 outputs. `ldmatrix` loads four 8×8 matrices at once: of the left factor 16 rows by 16 products, of the right one two
//! times 8 columns by 16 products. Lane `8 j + r` says where line `r` of matrix `j` is. To `ldmatrix`, an element of 32 bits is two of 16 beside each other,
//! so of these it loads half as many products; it cannot transpose them, and lanes load them one by one.

use ptx_asm::{AddressOperand, Inst, MmaShape, PtxBinaryOp, PtxBuilder, Reg, RegClass, Regs, StateSpace, Ty};
use smallvec::SmallVec;

use super::operand::SharedLayout;
use super::tile::MmaTile;
use crate::tensor_cores::Matmul;
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators};

/// Bytes of the products of one instruction, of a row or column.
const K_BYTES: u32 = 32;
/// Rows of a fragment, and columns of two.
const SIDE: u32 = 16;

/// A warp's fragments.
pub(super) struct FragmentLoader {
    left: LdmatrixAddresses,
    right: LdmatrixAddresses,
    mma: MmaShape,
    /// Instructions along the depth of a tile.
    steps: u32,
    /// Fragments of 16 rows, and pairs of fragments of 8 columns.
    counts: [u32; 2],
}

impl FragmentLoader {
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &MmaTile,
        thread: Reg,
        window: Reg,
    ) -> (FragmentLoader, AccumulatorLayout) {
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, thread, 31_u32);
        let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
        let across = tile.warps[1];
        let warp_tile = tile.warp_tile();
        let down = b.binary(PtxBinaryOp::Div, Ty::U32, warp, across);
        let along = b.binary(PtxBinaryOp::Rem, Ty::U32, warp, across);
        let row = b.binary(PtxBinaryOp::Mul, Ty::U32, down, warp_tile[0]);
        let column = b.binary(PtxBinaryOp::Mul, Ty::U32, along, warp_tile[1]);
        let [left, right] = tile.operand_tiles(matmul.element.bytes());
        let (left, right) = (SharedLayout::of(&matmul.a, left), SharedLayout::of(&matmul.b, right));
        let right_window = b.add(Ty::U32, window, tile.a_bytes());
        let counts = warp_tile.map(|side| side / SIDE);
        let left = LdmatrixAddresses::new(b, left, lane, row, window, counts[0], MatrixOrder::RowsFirst);
        let right =
            LdmatrixAddresses::new(b, right, lane, column, right_window, counts[1], MatrixOrder::KFirst);
        let down = (0..counts[0]).map(|at| SIDE * at);
        let fragments = down.flat_map(|down| (0..2 * counts[1]).map(move |at| [down, 8 * at]));
        let layout = AccumulatorLayout::new(b, lane, [row, column], fragments.collect(), tile.sizes());
        let mma = match matmul.element {
            Ty::F16 => MmaShape::F16K16,
            Ty::Bf16 => MmaShape::Bf16K16,
            _ => MmaShape::Tf32K8,
        };
        (FragmentLoader { left, right, mma, steps: tile.k_bytes / K_BYTES, counts }, layout)
    }

    /// Adds the products of a stage, in the slot at an offset, to the sums.
    pub(super) fn multiply(&self, b: &mut PtxBuilder, stage: Reg, accumulators: &Accumulators) {
        let (left, right) = (self.left.at(b, stage), self.right.at(b, stage));
        for step in 0..self.steps {
            let rows: Vec<Regs> = (0..self.counts[0]).map(|at| self.left.load(b, &left, step, at)).collect();
            let columns: Vec<Regs> =
                (0..self.counts[1]).map(|at| self.right.load(b, &right, step, at)).collect();
            for (i, a) in rows.iter().enumerate() {
                for (j, pair) in columns.iter().enumerate() {
                    for half in 0..2 {
                        let at = (i * columns.len() + j) * 2 + half;
                        let d: SmallVec<[Reg; 4]> = accumulators[at].into();
                        let of_b = pair[2 * half..2 * half + 2].into();
                        b.push(Inst::Mma { shape: self.mma, d: d.clone(), a: a.clone(), b: of_b, c: d });
                    }
                }
            }
        }
    }
}

/// Which of four matrices lie beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatrixOrder {
    /// The second is further down the side, the third further in depth: the left factor.
    RowsFirst,
    /// The other way round.
    KFirst,
}

/// Where a lane's lines lie.
struct LdmatrixAddresses {
    layout: SharedLayout,
    /// Addresses in the first slot: if the depth is contiguous for each step of 16 products, else for each 16 rows or columns. Exchanged chunks
    /// make these differ in more than a constant.
    bases: Vec<Reg>,
    order: MatrixOrder,
}

impl LdmatrixAddresses {
    fn new(
        b: &mut PtxBuilder,
        layout: SharedLayout,
        lane: Reg,
        first: Reg,
        window: Reg,
        count: u32,
        order: MatrixOrder,
    ) -> LdmatrixAddresses {
        if layout.is_read_by_words() {
            return LdmatrixAddresses { layout, bases: words(b, layout, lane, first, window), order };
        }
        let line = b.binary(PtxBinaryOp::And, Ty::B32, lane, 7_u32);
        let low = bit(b, lane, 3);
        let high = bit(b, lane, 4);
        let (side, k) = if order == MatrixOrder::RowsFirst { (low, high) } else { (high, low) };
        let swizzle = layout.swizzle(b, line);
        // The line, and the chunk in it, of the first 16 products of the first 16 rows or columns. That they begin at a multiple of 16 lets the
        // exchange be that of the line's last three bits.
        let (line, chunk, variants) = match layout.k_contiguous {
            true => {
                let row = b.mul_add(Ty::U32, side, 8_u32, first);
                (b.add(Ty::U32, row, line), k, 2)
            }
            false => {
                let own = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, first, 3_u32);
                (b.mul_add(Ty::U32, k, 8_u32, line), b.add(Ty::U32, own, side), count)
            }
        };
        let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, swizzle);
        let start = b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, chunk, 4_u32);
        let base = b.mul_add(Ty::U32, line, layout.line_bytes(), start);
        // Two chunks further on, whatever they are exchanged by.
        let variant = |n: u32| {
            let moved = b.binary(PtxBinaryOp::Xor, Ty::B32, base, 32 * n);
            b.add(Ty::U32, moved, window)
        };
        LdmatrixAddresses { layout, bases: (0..variants).map(variant).collect(), order }
    }

    /// The addresses in a slot.
    fn at(&self, b: &mut PtxBuilder, stage: Reg) -> Vec<Reg> {
        self.bases.iter().map(|&base| b.add(Ty::U32, base, stage)).collect()
    }

    /// Loads the products of an instruction, of 16 rows or columns.
    fn load(&self, b: &mut PtxBuilder, bases: &[Reg], step: u32, at: u32) -> Regs {
        if self.layout.is_read_by_words() {
            return self.load_words(b, bases, step, at);
        }
        let (base, line) = match self.layout.k_contiguous {
            true => (bases[step as usize], SIDE * at),
            false => (bases[at as usize], K_BYTES / self.layout.element * step),
        };
        let from = AddressOperand::at(base).plus((line * self.layout.line_bytes()) as i32);
        let dsts = b.registers(RegClass::B32, 4);
        let transposed = !self.layout.k_contiguous;
        b.push(Inst::Ldmatrix { transposed, dsts: dsts.clone(), from });
        dsts
    }

    /// As [`Loads::load`], in the order of the four matrices, element by element.
    fn load_words(&self, b: &mut PtxBuilder, bases: &[Reg], step: u32, at: u32) -> Regs {
        let pitch = self.layout.line_bytes();
        let lines = K_BYTES / self.layout.element;
        let word = |number: u32| {
            let (low, high) = (number % 2, number / 2);
            let (side, k) = if self.order == MatrixOrder::RowsFirst { (low, high) } else { (high, low) };
            let base = bases[(2 * (at % 2) + side) as usize];
            let line = step * lines + k * lines / 2;
            // 128 bytes are 32 rows or columns.
            let from = AddressOperand::at(base).plus((line * pitch + at / 2 * 128) as i32);
            b.load(StateSpace::Shared, Ty::B32, false, from)
        };
        (0..4).map(word).collect()
    }
}

/// Where a lane's first elements lie, of the first line: those of the first eight rows or columns, of the next eight, and of two times eight more. Exchanged
/// chunks make these differ in more than a constant, and repeat after 32 rows or columns.
fn words(b: &mut PtxBuilder, layout: SharedLayout, lane: Reg, first: Reg, window: Reg) -> Vec<Reg> {
    let own = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
    let line = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
    let swizzle = layout.swizzle(b, line);
    // The warp begins at a multiple of 32.
    let number = b.add(Ty::U32, first, own);
    let chunk = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, number, 2_u32);
    let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, swizzle);
    let word = b.binary(PtxBinaryOp::And, Ty::B32, number, 3_u32);
    let start = b.mul_add(Ty::U32, chunk, 4_u32, word);
    let start = b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, start, 2_u32);
    let base = b.mul_add(Ty::U32, line, layout.line_bytes(), start);
    let variant = |n: u32| {
        let moved = b.binary(PtxBinaryOp::Xor, Ty::B32, base, 32 * n);
        b.add(Ty::U32, moved, window)
    };
    (0..4).map(variant).collect()
}

fn bit(b: &mut PtxBuilder, of: Reg, number: u32) -> Reg {
    let shifted = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, of, number);
    b.binary(PtxBinaryOp::And, Ty::B32, shifted, 1_u32)
}
