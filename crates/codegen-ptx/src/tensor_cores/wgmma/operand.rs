//! Operands of `wgmma`: TMA loads of their tiles, the layout in shared memory, and matrix descriptors.
//!
//! A tile in shared memory consists of lines of 128 bytes, or 64 elements. In a K-major operand, a line is a
//! row of A or column of B, and all lines follow each other. Otherwise a line has 64 rows or columns at one
//! index along K. The lines of 64 such indices follow each other. After them come the lines of the next 64
//! rows or columns. In both layouts, chunk `c` of 16 bytes of line `l` lies at `c ^ (l mod 8)`: the 128-byte
//! swizzle, which repeats every eight lines.

use ptx_asm::{AddressOperand, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, RoundingMode, Ty};
use smallvec::{SmallVec, smallvec};

use super::circular_buffer::{CircularBuffer, PipelineStage};
use super::tile::{ELEMENT, ROWS, TILE_K, WgmmaTile};
use crate::tensor_cores::{BatchAxis, Matmul, OperandView};

/// Bytes of a line.
const LINE: u32 = 128;
/// Elements of a line.
const ELEMENTS: u32 = LINE / ELEMENT;
/// K of a `wgmma`.
pub(super) const STEP: u32 = 16;

/// An operand or output as a tensor for TMA: extents, byte strides of all axes except the innermost, and
/// tile. Batch axes come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TmaTensor {
    pub(crate) sizes: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) tile: Vec<u32>,
}

impl TmaTensor {
    /// A tensor of rows `stride` elements apart, with elements of `element` bytes, and a batch of such
    /// tensors.
    pub(super) fn of(
        element: u32,
        sizes: [u32; 2],
        stride: u32,
        tile: [u32; 2],
        batch: &[BatchAxis],
    ) -> TmaTensor {
        let bytes = |elements: u64| elements * u64::from(element);
        let extents = batch.iter().map(|axis| u64::from(axis.extent));
        let strides = batch.iter().map(|axis| bytes(axis.stride));
        TmaTensor {
            sizes: sizes.map(u64::from).into_iter().chain(extents).collect(),
            strides: [bytes(stride.into())].into_iter().chain(strides).collect(),
            tile: tile.into_iter().chain(batch.iter().map(|_| 1)).collect(),
        }
    }
}

impl WgmmaTile {
    /// A and B as tensors; `None` if a tensor map cannot describe the batch of an operand.
    pub(crate) fn operands(&self, matmul: &Matmul) -> Option<[TmaTensor; 2]> {
        let k = matmul.sizes[2];
        let tensor = |matrix: &OperandView, at| {
            let (sizes, lines) = match matrix.k_contiguous {
                true => ([k, matrix.extent], self.lines(at)),
                false => ([matrix.extent, k], TILE_K),
            };
            Some(TmaTensor::of(ELEMENT, sizes, matrix.stride, [ELEMENTS, lines], matrix.batch.as_ref()?))
        };
        Some([tensor(&matmul.a, 0)?, tensor(&matmul.b, 1)?])
    }

    /// Rows of A or columns of B that one block loads. The blocks of a cluster divide the columns of B.
    fn lines(&self, operand: usize) -> u32 {
        [self.rows(), self.columns / self.cluster][operand]
    }
}

/// The TMA loads of an operand's tiles.
pub(super) struct TmaLoader {
    map: Reg,
    k_contiguous: bool,
    /// Offset of the operand in a stage.
    to: u32,
    /// Number of loads per tile.
    count: u32,
    /// Distance between these loads, in rows and in bytes.
    step: (u32, u32),
    /// For a multicast operand: the rank of this block, the rows and bytes that each block loads, and the
    /// mask of blocks.
    shared: Option<(Reg, (u32, u32), Reg)>,
}

impl TmaLoader {
    /// The loads of the operand at this index of the tensor maps.
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &WgmmaTile,
        map: u32,
        rank: Option<Reg>,
    ) -> TmaLoader {
        let at = map as usize;
        let matrix = [&matmul.a, &matmul.b][at];
        let lines = tile.lines(at);
        let dst = b.register(RegClass::B64);
        b.push(Inst::TensorMapAddress { dst, map });
        b.push(Inst::PrefetchTensorMap { map: dst });
        let shared = rank.filter(|_| at == 1).map(|rank| {
            let all = b.mov(RegClass::B16, (1_u32 << tile.cluster) - 1);
            (rank, (lines, lines * LINE), all)
        });
        let (count, rows) = match matrix.k_contiguous {
            true => (1, lines),
            false => (lines / ELEMENTS, ELEMENTS),
        };
        TmaLoader {
            map: dst,
            k_contiguous: matrix.k_contiguous,
            to: tile.offset(at),
            count,
            step: (rows, rows * LINE),
            shared,
        }
    }

    /// Issues the loads of a tile into a stage.
    pub(super) fn copy(
        &self,
        b: &mut PtxBuilder,
        stage: &PipelineStage,
        [k, first]: [Reg; 2],
        batch: &[Reg],
    ) {
        let (mut first, mut window) = (first, stage.window);
        if let Some((rank, (rows, bytes), _)) = self.shared {
            first = b.mul_add(Ty::U32, rank, rows, first);
            window = b.mul_add(Ty::U32, rank, bytes, window);
        }
        for at in 0..self.count {
            let row = if at == 0 { first } else { b.add(Ty::U32, first, at * self.step.0) };
            let (inner, outer) = if self.k_contiguous { (k, row) } else { (row, k) };
            let mut coord: SmallVec<[_; 4]> = smallvec![inner.into(), outer.into()];
            coord.extend(batch.iter().map(|&number| number.into()));
            b.push(Inst::TmaLoad {
                map: self.map,
                at: coord,
                to: AddressOperand::at(window).plus((self.to + at * self.step.1) as i32),
                barrier: stage.full,
                multicast: self.shared.map(|(_, _, blocks)| blocks),
            });
        }
    }
}

/// The matrix descriptors of an operand.
pub(super) struct DescriptorIterator {
    /// Descriptor in the first stage.
    first: Reg,
    /// Distance between stages, in descriptor units.
    stage: u32,
    /// Distance between steps along K, in descriptor units.
    step: u32,
}

/// Bytes of a descriptor unit.
const UNIT: u32 = 16;
/// The bits of an address, in descriptor units.
const ADDRESS: u32 = (1 << 14) - 1;
/// Bit position of the leading-dimension offset.
const LEADING: u32 = 16;
/// Bit position of the stride-dimension offset.
const STRIDE: u32 = 32;
/// The swizzle mode of 128 bytes, in its bits of a descriptor.
const SWIZZLE_128: u64 = 1 << 62;

impl DescriptorIterator {
    /// The descriptors of the rows of A that belong to a consumer warpgroup, or of all columns of B.
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &WgmmaTile,
        buffer: &CircularBuffer,
        at: usize,
        consumer: Reg,
    ) -> DescriptorIterator {
        let matrix = [&matmul.a, &matmul.b][at];
        let window = b.add(Ty::U32, buffer.window, tile.offset(at));
        let window = match at {
            // 64 rows of A take 64 lines in both layouts: a line is one row with 64 elements along K, or 64
            // rows at one index along K.
            0 => b.mul_add(Ty::U32, consumer, ROWS * LINE, window),
            _ => window,
        };
        let address = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, window, UNIT.ilog2());
        // In a cluster, the upper bits of an address in shared memory are the rank of the block. They would
        // change the offsets.
        let address = b.binary(PtxBinaryOp::And, Ty::B32, address, ADDRESS);
        let address = b.convert(Ty::U64, Ty::U32, RoundingMode::None, address);
        // Groups of eight lines follow each other. The leading offset is the distance to the next 64 rows or
        // columns; it is not used for K-major operands.
        let leading = if matrix.k_contiguous { UNIT } else { TILE_K * LINE };
        let constant =
            u64::from(leading / UNIT) << LEADING | u64::from(8 * LINE / UNIT) << STRIDE | SWIZZLE_128;
        let first = b.binary(PtxBinaryOp::Or, Ty::B64, address, constant);
        let step = if matrix.k_contiguous { STEP * ELEMENT } else { STEP * LINE };
        DescriptorIterator { first, stage: tile.stage_bytes() / UNIT, step: step / UNIT }
    }

    /// The descriptor in a stage.
    pub(super) fn at(&self, b: &mut PtxBuilder, stage: Reg) -> Reg {
        b.mul_add_wide(Ty::U32, stage, self.stage, self.first)
    }

    /// The descriptor of a step along K.
    pub(super) fn step(&self, b: &mut PtxBuilder, descriptor: Reg, number: u32) -> Reg {
        match number {
            0 => descriptor,
            _ => b.add(Ty::U64, descriptor, u64::from(number * self.step)),
        }
    }
}
