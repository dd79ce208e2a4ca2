//! Loads operand tiles into shared memory with `cp.async`, swizzled.
//!
//! A tile consists of lines of 16-byte chunks. A line is a row of A or column of B in a K-major operand, and
//! otherwise an index along K. The threads of a block copy chunk by chunk. Chunk `c` of line `l` lies at `c ^
//! s(l)`, so that the eight lines that `ldmatrix` reads at one chunk are in different banks. With lines of 64
//! bytes, two lines cover all banks, and `s(l) = l / 2 mod 4`; with longer lines, `s(l) = l mod 8`. 32-bit
//! elements that are not K-major are read one by one. A warp then reads eight elements, which are two chunks,
//! of each of four lines at a time, so for them `s(l) = 2 l mod 8`.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, RegClass, Ty,
};

use super::OperandView;
use super::tile::OperandTile;

/// Bytes of a copy.
const CHUNK: u32 = 16;

/// The layout of an operand tile in shared memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::tensor_cores) struct SharedLayout {
    pub(super) k_contiguous: bool,
    /// Chunks per line.
    chunks: u32,
    /// Bytes of an element.
    pub(super) element: u32,
}

impl SharedLayout {
    pub(in crate::tensor_cores) fn of(matrix: &OperandView, side: OperandTile) -> SharedLayout {
        let along = if matrix.k_contiguous { side.k } else { side.extent };
        let element = side.element;
        SharedLayout { k_contiguous: matrix.k_contiguous, chunks: along * element / CHUNK, element }
    }

    pub(super) fn line_bytes(&self) -> u32 {
        self.chunks * CHUNK
    }

    /// `mma` steps along a line of a K-major operand.
    pub(super) fn steps(&self) -> u32 {
        self.chunks / 2
    }

    /// Whether lanes load single elements, because `ldmatrix` transposes 16-bit elements only.
    pub(super) fn is_read_by_words(&self) -> bool {
        !self.k_contiguous && self.element == 4
    }

    /// The swizzle `s(l)` of a line; `line` may differ from the line's index by multiples of 8.
    pub(super) fn swizzle(&self, b: &mut PtxBuilder, line: Reg) -> Reg {
        match self.chunks {
            4 => {
                let half = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, line, 1_u32);
                b.binary(PtxBinaryOp::And, Ty::B32, half, 3_u32)
            }
            _ if self.is_read_by_words() => {
                let double = b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, line, 1_u32);
                b.binary(PtxBinaryOp::And, Ty::B32, double, 6_u32)
            }
            _ => b.binary(PtxBinaryOp::And, Ty::B32, line, 7_u32),
        }
    }
}

/// The copies of an operand's tiles by one thread.
pub(in crate::tensor_cores) struct OperandLoader {
    /// Global address of the thread's first chunk of the next tile.
    from: Reg,
    /// Offset of that chunk in the tile in shared memory.
    to: Reg,
    /// Bytes between tiles in global memory.
    next: u64,
    /// Number of copies per thread and tile.
    count: u32,
    /// Bytes between these copies, in global and in shared memory.
    step: (u64, u32),
    /// For each copy, the predicate that its rows of A, or columns of B, exist; `None` if all do.
    inside: Vec<Option<Reg>>,
    /// The bounds check along K, if K of the matmul is not a multiple of K of the tile.
    ragged: Option<RaggedK>,
}

/// The bounds check along K.
struct RaggedK {
    /// Index along K of the thread's first chunk of the next tile.
    at: Reg,
    k: u32,
    /// Distance along K between copies.
    step: u32,
    /// Distance along K between tiles.
    next: u32,
}

impl OperandLoader {
    /// The copies of tiles whose first row (or column) is `first`, of an operand at address `base`.
    pub(in crate::tensor_cores) fn new(
        b: &mut PtxBuilder,
        matrix: &OperandView,
        side: OperandTile,
        k: u32,
        thread: Reg,
        first: Reg,
        base: Reg,
    ) -> OperandLoader {
        let layout = SharedLayout::of(matrix, side);
        let lines = side.threads / layout.chunks;
        let (line, chunk) = (
            b.binary(PtxBinaryOp::Div, Ty::U32, thread, layout.chunks),
            b.binary(PtxBinaryOp::Rem, Ty::U32, thread, layout.chunks),
        );
        let swizzle = layout.swizzle(b, line);
        let swizzled = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, swizzle);
        let start = b.binary(PtxBinaryOp::Mul, Ty::U32, swizzled, CHUNK);
        let to = b.mul_add(Ty::U32, line, layout.line_bytes(), start);
        let element = side.element;
        let stride = matrix.stride * element;
        let bytes = b.binary(PtxBinaryOp::Mul, Ty::U32, chunk, CHUNK);
        let (row, along, next) = match matrix.k_contiguous {
            true => (b.add(Ty::U32, first, line), bytes, u64::from(side.k * element)),
            false => (line, b.mul_add(Ty::U32, first, element, bytes), u64::from(side.k) * u64::from(stride)),
        };
        let from = b.mul_add_wide(Ty::U32, row, stride, base);
        let from = b.mul_add_wide(Ty::U32, along, 1_u32, from);
        let from = b.mov(RegClass::B64, from);
        let count = side.extent * side.k * element / CHUNK / side.threads;
        let mut operand = OperandLoader {
            from,
            to,
            next,
            count,
            step: (u64::from(lines) * u64::from(stride), lines * layout.line_bytes()),
            inside: vec![None; count as usize],
            ragged: None,
        };
        if !matrix.extent.is_multiple_of(side.extent) {
            operand.inside = operand.rows_inside(b, matrix, (row, lines), first, (chunk, CHUNK / element));
        }
        if !k.is_multiple_of(side.k) {
            let elements = CHUNK / element;
            operand.ragged = Some(match matrix.k_contiguous {
                true => {
                    let at = b.binary(PtxBinaryOp::Mul, Ty::U32, chunk, elements);
                    RaggedK { at, k, step: 0, next: side.k }
                }
                false => RaggedK { at: b.mov(RegClass::B32, line), k, step: lines, next: side.k },
            });
        }
        operand
    }

    /// For each copy, a predicate for rows that exist; the rows of one chunk all exist or none does. `lines`
    /// is the distance between copies in rows. `rows` is the number of rows per chunk of an operand that is
    /// not K-major.
    fn rows_inside(
        &self,
        b: &mut PtxBuilder,
        matrix: &OperandView,
        (row, lines): (Reg, u32),
        first: Reg,
        (chunk, rows): (Reg, u32),
    ) -> Vec<Option<Reg>> {
        if matrix.k_contiguous {
            let inside = |at: u32| {
                let row = b.add(Ty::U32, row, at * lines);
                Some(b.compare(CmpOp::Lt, Ty::U32, row, matrix.extent))
            };
            return (0..self.count).map(inside).collect();
        }
        let row = b.mul_add(Ty::U32, chunk, rows, first);
        vec![Some(b.compare(CmpOp::Lt, Ty::U32, row, matrix.extent)); self.count as usize]
    }

    /// Starts the copies of the next tile to an address in shared memory, and advances.
    pub(in crate::tensor_cores) fn copy(
        &mut self,
        b: &mut PtxBuilder,
        window: Reg,
        offset: u32,
        when: Option<GuardPredicate>,
    ) {
        let to = b.add(Ty::U32, window, self.to);
        for at in 0..self.count {
            let read = self.read(b, at);
            let push = |b: &mut PtxBuilder, from| {
                let to = AddressOperand::at(to).plus((offset + at * self.step.1) as i32);
                let copy = Inst::CpAsync { bytes: CHUNK, to, from, read };
                b.push_stmt(match when {
                    Some(guard) => PtxStmt::Predicated(guard, copy),
                    None => PtxStmt::Inst(copy),
                });
            };
            let further = u64::from(at) * self.step.0;
            match i32::try_from(further) {
                Ok(further) => push(b, AddressOperand::at(self.from).plus(further)),
                Err(_) => {
                    let from = b.add(Ty::U64, self.from, further);
                    push(b, AddressOperand::at(from));
                }
            }
        }
        let next = b.add(Ty::U64, self.from, self.next);
        b.set(self.from, next);
        if let Some(ragged) = &self.ragged {
            let next = b.add(Ty::U32, ragged.at, ragged.next);
            b.set(ragged.at, next);
        }
    }

    /// Number of bytes that a copy reads, 0 beyond the edge; `None` if it always reads all.
    fn read(&self, b: &mut PtxBuilder, at: u32) -> Option<Reg> {
        let deep = self.ragged.as_ref().map(|ragged| {
            let matmul = b.add(Ty::U32, ragged.at, at * ragged.step);
            b.compare(CmpOp::Lt, Ty::U32, matmul, ragged.k)
        });
        let inside = match (self.inside[at as usize], deep) {
            (Some(row), Some(deep)) => Some(b.binary(PtxBinaryOp::And, Ty::Pred, row, deep)),
            (row, deep) => row.or(deep),
        }?;
        Some(b.select(Ty::B32, inside, CHUNK, 0_u32))
    }
}
