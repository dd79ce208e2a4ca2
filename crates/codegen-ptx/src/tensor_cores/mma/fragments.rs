//! Loads the fragments of a warp with `ldmatrix` and multiplies them.
//!
//! A fragment of the accumulators is 16 by 8. `ldmatrix` loads four 8×8 matrices of 16-bit elements: 16 rows
//! of A by 16 of K, or two times 8 columns of B by 16 of K. Lane `8 j + r` gives the address of line `r` of
//! matrix `j`. To `ldmatrix`, a 32-bit element is a pair of 16-bit elements, so it loads half as many of them
//! along K. It cannot transpose 32-bit elements; lanes load those one by one.

use ptx_asm::{AddressOperand, Inst, MmaShape, PtxBinaryOp, PtxBuilder, Reg, RegClass, Regs, StateSpace, Ty};
use smallvec::SmallVec;

use super::operand::SharedLayout;
use super::tile::MmaTile;
use crate::tensor_cores::Matmul;
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators};

/// Bytes along K of one `mma`.
const K_BYTES: u32 = 32;
/// Rows of a fragment, and columns of two fragments.
const SIDE: u32 = 16;

/// The fragments of a warp.
pub(super) struct FragmentLoader {
    left: LdmatrixAddresses,
    right: LdmatrixAddresses,
    mma: MmaShape,
    /// `mma` steps along K per stage.
    steps: u32,
    /// Number of 16-row fragments of A, and of pairs of 8-column fragments of B.
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

    /// Multiplies the operands of the stage at this offset into the accumulators.
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

/// The order of the four matrices of an `ldmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tensor_cores) enum MatrixOrder {
    /// The second matrix is further along M or N, the third further along K: for A.
    RowsFirst,
    /// The second matrix is further along K, the third further along M or N: for B.
    KFirst,
}

/// The addresses that a lane gives to `ldmatrix`.
pub(in crate::tensor_cores) struct LdmatrixAddresses {
    layout: SharedLayout,
    /// Addresses in the first stage: for a K-major operand one per step of 16 along K, else one per 16 rows
    /// or columns. They differ by more than a constant because of the swizzle.
    bases: Vec<Reg>,
    order: MatrixOrder,
}

impl LdmatrixAddresses {
    pub(in crate::tensor_cores) fn new(
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
        // Line and chunk of the first 16 × 16 elements. Since these begin at a multiple of 16, the swizzle
        // depends on the low three bits of the line only.
        let (line, chunk, variants) = match layout.k_contiguous {
            true => {
                let row = b.mul_add(Ty::U32, side, 8_u32, first);
                (b.add(Ty::U32, row, line), k, layout.steps())
            }
            false => {
                let own = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, first, 3_u32);
                (b.mul_add(Ty::U32, k, 8_u32, line), b.add(Ty::U32, own, side), count)
            }
        };
        let chunk = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, swizzle);
        let start = b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, chunk, 4_u32);
        let base = b.mul_add(Ty::U32, line, layout.line_bytes(), start);
        // The address `2 n` chunks further: with the swizzle, this is an exclusive or.
        let variant = |n: u32| {
            let moved = b.binary(PtxBinaryOp::Xor, Ty::B32, base, 32 * n);
            b.add(Ty::U32, moved, window)
        };
        LdmatrixAddresses { layout, bases: (0..variants).map(variant).collect(), order }
    }

    /// The addresses in the first stage.
    pub(in crate::tensor_cores) fn bases(&self) -> &[Reg] {
        &self.bases
    }

    /// The addresses in a stage.
    pub(in crate::tensor_cores) fn at(&self, b: &mut PtxBuilder, stage: Reg) -> Vec<Reg> {
        self.bases.iter().map(|&base| b.add(Ty::U32, base, stage)).collect()
    }

    /// Loads 16 rows or columns for one `mma` step.
    pub(in crate::tensor_cores) fn load(
        &self,
        b: &mut PtxBuilder,
        bases: &[Reg],
        step: u32,
        at: u32,
    ) -> Regs {
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

    /// Like [`LdmatrixAddresses::load`], from the stage at this offset. The address takes no register
    /// between loads. The window and the offset are multiples of the bytes of a line.
    pub(in crate::tensor_cores) fn load_at(
        &self,
        b: &mut PtxBuilder,
        stage: Reg,
        step: u32,
        at: u32,
    ) -> Regs {
        let which = if self.layout.k_contiguous { step } else { at };
        let first = b.add(Ty::U32, self.bases[0], stage);
        let mut bases = self.bases.clone();
        bases[which as usize] = b.binary(PtxBinaryOp::Xor, Ty::B32, first, 32 * which);
        self.load(b, &bases, step, at)
    }

    /// Like [`LdmatrixAddresses::load`], element by element, in the order of the four matrices.
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

/// The addresses of a lane's first elements in the first line: in the first eight rows or columns, in the
/// next eight, and in two more groups of eight. They differ by more than a constant because of the swizzle,
/// which repeats after 32 rows or columns.
fn words(b: &mut PtxBuilder, layout: SharedLayout, lane: Reg, first: Reg, window: Reg) -> Vec<Reg> {
    let own = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, lane, 2_u32);
    let line = b.binary(PtxBinaryOp::And, Ty::B32, lane, 3_u32);
    let swizzle = layout.swizzle(b, line);
    // The warp's tile begins at a multiple of 32.
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
