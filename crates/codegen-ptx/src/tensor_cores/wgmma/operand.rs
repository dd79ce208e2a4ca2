//! A factor: the tensor of which tiles are copied, where they lie in shared memory, and how `wgmma` is told.
//!
//! A tile in shared memory is lines of 128 bytes, 64 elements. If products are neighbours in memory a line is a row (or column), and all lines are one after another. If
//! rows are, a line is 64 of them at one step of the depth; the lines of 64 steps are one after another, and behind them come the next 64 rows. In either case
//! chunk `c` of 16 bytes of line `l` lies at `c ^ (l mod 8)`: eight lines are what the order repeats after, and what the hardware takes at a time.

use ptx_asm::{AddressOperand, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, RoundingMode, Ty};
use smallvec::{SmallVec, smallvec};

use super::circular_buffer::{CircularBuffer, PipelineStage};
use super::tile::{ELEMENT, ROWS, TILE_K, WgmmaTile};
use crate::tensor_cores::{BatchAxis, Matmul, OperandView};

/// Bytes of a line.
const LINE: u32 = 128;
/// Elements of a line.
const ELEMENTS: u32 = LINE / ELEMENT;
/// Products of one instruction.
pub(super) const STEP: u32 = 16;

/// A factor, or where results go, as a tensor: how many elements there are along each axis, how many bytes from one to the next along all but the first, and the
/// elements of what is copied at once. The batch's axes come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TmaTensor {
    pub(crate) sizes: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) tile: Vec<u32>,
}

impl TmaTensor {
    /// Of elements of so many bytes: lines that are so many elements apart, and a batch of these.
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
    /// The factors as tensors, if their batches can be axes.
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

    /// Rows, or columns, that one block copies of a factor: those of the right one are divided among the blocks of a cluster.
    fn lines(&self, operand: usize) -> u32 {
        [self.rows(), self.columns / self.cluster][operand]
    }
}

/// The copies of a factor's tiles.
pub(super) struct TmaLoader {
    map: Reg,
    k_contiguous: bool,
    /// Where the first copy goes in a slot.
    to: u32,
    /// How many copies there are, and rows and bytes from one to the next.
    count: u32,
    step: (u32, u32),
    /// If blocks share the tile: the number of this one, what each copies, in rows and bytes, and whom it is for.
    shared: Option<(Reg, (u32, u32), Reg)>,
}

impl TmaLoader {
    /// Of the factor whose tensor is the map of that number.
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

    /// Begins the copies of the tile at a step of the depth and a row, into a slot.
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

/// What a consumer multiplies of a factor, as descriptors.
pub(super) struct DescriptorIterator {
    /// That of the first slot.
    first: Reg,
    /// From a slot to the next.
    stage: u32,
    /// From an instruction's products to the next ones.
    step: u32,
}

/// Descriptors count 16 bytes.
const UNIT: u32 = 16;
/// Where a descriptor has what is how far apart, and how chunks are ordered.
const LEADING: u32 = 16;
const STRIDE: u32 = 32;
const SWIZZLE_128: u64 = 1 << 62;

impl DescriptorIterator {
    /// Of the left factor the rows of the consumer, of the right one all columns.
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &WgmmaTile,
        ring: &CircularBuffer,
        at: usize,
        consumer: Reg,
    ) -> DescriptorIterator {
        let matrix = [&matmul.a, &matmul.b][at];
        let window = b.add(Ty::U32, ring.window, tile.offset(at));
        let window = match at {
            // Whichever way they lie, 64 rows are 64 lines of 64 products, or of 64 rows.
            0 => b.mul_add(Ty::U32, consumer, ROWS * LINE, window),
            _ => window,
        };
        let address = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, window, UNIT.ilog2());
        let address = b.convert(Ty::U64, Ty::U32, RoundingMode::None, address);
        // Groups of eight lines are one after another. The other distance is from 64 rows to the next; if lines are rows there is none.
        let leading = if matrix.k_contiguous { UNIT } else { TILE_K * LINE };
        let constant =
            u64::from(leading / UNIT) << LEADING | u64::from(8 * LINE / UNIT) << STRIDE | SWIZZLE_128;
        let first = b.binary(PtxBinaryOp::Or, Ty::B64, address, constant);
        let step = if matrix.k_contiguous { STEP * ELEMENT } else { STEP * LINE };
        DescriptorIterator { first, stage: tile.stage_bytes() / UNIT, step: step / UNIT }
    }

    /// The descriptor in a slot.
    pub(super) fn at(&self, b: &mut PtxBuilder, stage: Reg) -> Reg {
        b.mul_add_wide(Ty::U32, stage, self.stage, self.first)
    }

    /// The descriptor of an instruction of a stage.
    pub(super) fn step(&self, b: &mut PtxBuilder, descriptor: Reg, number: u32) -> Reg {
        match number {
            0 => descriptor,
            _ => b.add(Ty::U64, descriptor, u64::from(number * self.step)),
        }
    }
}
