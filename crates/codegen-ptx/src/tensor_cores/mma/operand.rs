//! A factor: how its tiles come to shared memory, and where they lie there.
//!
//! A tile is lines of 16-byte chunks: a line is a row (or column) if products are neighbours in memory, and a step of the depth if rows are. The
//! threads of a block copy chunk after chunk. In its line, chunk `c` of line `l` lies at `c ^ s(l)`: `ldmatrix` reads eight lines at one
//! chunk, which so fall into different banks. With 64 bytes to a line, two lines make up the 128 bytes of all banks and `s(l) = l / 2 mod 4`; with more,
//! `s(l) = l mod 8`. Elements of 32 bits that are not neighbours along the depth are read one by one, of four lines and eight of a line at a time, which is
//! two chunks: there `s(l) = 2 l mod 8`.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, RegClass, Ty,
};

use super::OperandView;
use super::tile::OperandTile;

/// Bytes that are copied at a time.
const CHUNK: u32 = 16;

/// How a tile lies in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedLayout {
    pub(super) k_contiguous: bool,
    /// Chunks of a line.
    chunks: u32,
    /// Bytes of an element.
    pub(super) element: u32,
}

impl SharedLayout {
    pub(super) fn of(matrix: &OperandView, side: OperandTile) -> SharedLayout {
        let along = if matrix.k_contiguous { side.k } else { side.extent };
        let element = side.element;
        SharedLayout { k_contiguous: matrix.k_contiguous, chunks: along * element / CHUNK, element }
    }

    pub(super) fn line_bytes(&self) -> u32 {
        self.chunks * CHUNK
    }

    /// Whether lanes load single elements: `ldmatrix` transposes elements of 16 bits only.
    pub(super) fn is_read_by_words(&self) -> bool {
        !self.k_contiguous && self.element == 4
    }

    /// What the chunks of a line are exchanged by, given the line's number or anything that equals it modulo 8.
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

/// The copies of a factor's tiles.
pub(super) struct OperandLoader {
    /// The global address of this thread's first chunk of the next tile.
    from: Reg,
    /// Where that lies in its tile in shared memory.
    to: Reg,
    /// Bytes from a tile to the next.
    next: u64,
    /// Copies of this thread, and from one to the next: bytes of global and of shared memory.
    count: u32,
    step: (u64, u32),
    /// For each copy whether it lies among the rows; nothing where all do.
    inside: Vec<Option<Reg>>,
    /// What is checked of the depth, if it is no multiple of what is copied.
    ragged: Option<RaggedK>,
}

/// The end of the depth.
struct RaggedK {
    /// The product of this thread's first chunk in the next tile.
    at: Reg,
    k: u32,
    /// From a copy to the next.
    step: u32,
    /// From a tile to the next.
    next: u32,
}

impl OperandLoader {
    /// Of the tile whose first row (or column) is `first`; `base` is the address of the whole factor.
    pub(super) fn new(
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

    /// For each copy whether its rows exist; of a chunk of several, all do or none. The row comes with how many there are to that of the next copy, the
    /// chunk with how many rows it has if these are neighbours.
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

    /// Begins the copies of the next tile to an address in shared memory, and moves on.
    pub(super) fn copy(
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

    /// How many bytes a copy reads, where that may be none.
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
