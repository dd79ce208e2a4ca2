//! A factor: the tensor of which tiles are copied, where they lie in shared memory, and how `wgmma` is told.
//!
//! A tile in shared memory is lines of 128 bytes, 64 elements. If products are neighbours in memory a line is a row (or column), and all lines are one after another. If
//! rows are, a line is 64 of them at one step of the depth; the lines of 64 steps are one after another, and behind them come the next 64 rows. In either case
//! chunk `c` of 16 bytes of line `l` lies at `c ^ (l mod 8)`: eight lines are what the order repeats after, and what the hardware takes at a time.

use ptx_asm::{AddressOperand, Inst, PtxBinaryOp, PtxBuilder, Reg, RegClass, RoundingMode, Ty};
use smallvec::{SmallVec, smallvec};

use super::ring::{Ring, Slot};
use super::tile::{DEPTH, ELEMENT, ROWS, Tile};
use crate::cores::{BatchAxis, Matrix, Product};

/// Bytes of a line.
const LINE: u32 = 128;
/// Elements of a line.
const ELEMENTS: u32 = LINE / ELEMENT;
/// Products of one instruction.
pub(super) const STEP: u32 = 16;

/// A factor, or where results go, as a tensor: how many elements there are along each axis, how many bytes from one to the next along all but the first, and the
/// elements of what is copied at once. The batch's axes come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) sizes: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) tile: Vec<u32>,
}

impl Tensor {
    /// Of elements of so many bytes: lines that are so many elements apart, and a batch of these.
    pub(super) fn of(
        element: u32,
        sizes: [u32; 2],
        stride: u32,
        tile: [u32; 2],
        batch: &[BatchAxis],
    ) -> Tensor {
        let bytes = |elements: u64| elements * u64::from(element);
        let extents = batch.iter().map(|axis| u64::from(axis.extent));
        let strides = batch.iter().map(|axis| bytes(axis.stride));
        Tensor {
            sizes: sizes.map(u64::from).into_iter().chain(extents).collect(),
            strides: [bytes(stride.into())].into_iter().chain(strides).collect(),
            tile: tile.into_iter().chain(batch.iter().map(|_| 1)).collect(),
        }
    }
}

impl Tile {
    /// The factors as tensors, if their batches can be axes.
    pub(crate) fn factors(&self, product: &Product) -> Option<[Tensor; 2]> {
        let depth = product.sizes[2];
        let tensor = |matrix: &Matrix, at| {
            let (sizes, lines) = match matrix.depth_contiguous {
                true => ([depth, matrix.extent], self.lines(at)),
                false => ([matrix.extent, depth], DEPTH),
            };
            Some(Tensor::of(ELEMENT, sizes, matrix.stride, [ELEMENTS, lines], matrix.batch.as_ref()?))
        };
        Some([tensor(&product.left, 0)?, tensor(&product.right, 1)?])
    }

    /// Rows, or columns, that one block copies of a factor: those of the right one are divided among the blocks of a cluster.
    fn lines(&self, factor: usize) -> u32 {
        [self.rows(), self.columns / self.cluster][factor]
    }
}

/// The copies of a factor's tiles.
pub(super) struct Operand {
    map: Reg,
    depth_contiguous: bool,
    /// Where the first copy goes in a slot.
    to: u32,
    /// How many copies there are, and rows and bytes from one to the next.
    count: u32,
    step: (u32, u32),
    /// If blocks share the tile: the number of this one, what each copies, in rows and bytes, and whom it is for.
    shared: Option<(Reg, (u32, u32), Reg)>,
}

impl Operand {
    /// Of the factor whose tensor is the map of that number.
    pub(super) fn new(
        b: &mut PtxBuilder,
        product: &Product,
        tile: &Tile,
        map: u32,
        rank: Option<Reg>,
    ) -> Operand {
        let at = map as usize;
        let matrix = [&product.left, &product.right][at];
        let lines = tile.lines(at);
        let dst = b.register(RegClass::B64);
        b.push(Inst::TensorMapAddress { dst, map });
        b.push(Inst::PrefetchTensorMap { map: dst });
        let shared = rank.filter(|_| at == 1).map(|rank| {
            let all = b.mov(RegClass::B16, (1_u32 << tile.cluster) - 1);
            (rank, (lines, lines * LINE), all)
        });
        let (count, rows) = match matrix.depth_contiguous {
            true => (1, lines),
            false => (lines / ELEMENTS, ELEMENTS),
        };
        Operand {
            map: dst,
            depth_contiguous: matrix.depth_contiguous,
            to: tile.offset(at),
            count,
            step: (rows, rows * LINE),
            shared,
        }
    }

    /// Begins the copies of the tile at a step of the depth and a row, into a slot.
    pub(super) fn copy(&self, b: &mut PtxBuilder, slot: &Slot, [depth, first]: [Reg; 2], batch: &[Reg]) {
        let (mut first, mut window) = (first, slot.window);
        if let Some((rank, (rows, bytes), _)) = self.shared {
            first = b.mul_add(Ty::U32, rank, rows, first);
            window = b.mul_add(Ty::U32, rank, bytes, window);
        }
        for at in 0..self.count {
            let row = if at == 0 { first } else { b.add(Ty::U32, first, at * self.step.0) };
            let (inner, outer) = if self.depth_contiguous { (depth, row) } else { (row, depth) };
            let mut place: SmallVec<[_; 4]> = smallvec![inner.into(), outer.into()];
            place.extend(batch.iter().map(|&number| number.into()));
            b.push(Inst::TmaLoad {
                map: self.map,
                at: place,
                to: AddressOperand::at(window).plus((self.to + at * self.step.1) as i32),
                barrier: slot.full,
                multicast: self.shared.map(|(_, _, blocks)| blocks),
            });
        }
    }
}

/// What a consumer multiplies of a factor, as descriptors.
pub(super) struct Factor {
    /// That of the first slot.
    first: Reg,
    /// From a slot to the next.
    slot: u32,
    /// From an instruction's products to the next ones.
    step: u32,
}

/// Descriptors count 16 bytes.
const UNIT: u32 = 16;
/// Where a descriptor has what is how far apart, and how chunks are ordered.
const LEADING: u32 = 16;
const STRIDE: u32 = 32;
const SWIZZLE_128: u64 = 1 << 62;

impl Factor {
    /// Of the left factor the rows of the consumer, of the right one all columns.
    pub(super) fn new(
        b: &mut PtxBuilder,
        product: &Product,
        tile: &Tile,
        ring: &Ring,
        at: usize,
        consumer: Reg,
    ) -> Factor {
        let matrix = [&product.left, &product.right][at];
        let window = b.add(Ty::U32, ring.window, tile.offset(at));
        let window = match at {
            // Whichever way they lie, 64 rows are 64 lines of 64 products, or of 64 rows.
            0 => b.mul_add(Ty::U32, consumer, ROWS * LINE, window),
            _ => window,
        };
        let address = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, window, UNIT.ilog2());
        let address = b.convert(Ty::U64, Ty::U32, RoundingMode::None, address);
        // Groups of eight lines are one after another. The other distance is from 64 rows to the next; if lines are rows there is none.
        let leading = if matrix.depth_contiguous { UNIT } else { DEPTH * LINE };
        let constant =
            u64::from(leading / UNIT) << LEADING | u64::from(8 * LINE / UNIT) << STRIDE | SWIZZLE_128;
        let first = b.binary(PtxBinaryOp::Or, Ty::B64, address, constant);
        let step = if matrix.depth_contiguous { STEP * ELEMENT } else { STEP * LINE };
        Factor { first, slot: tile.stage_bytes() / UNIT, step: step / UNIT }
    }

    /// The descriptor in a slot.
    pub(super) fn at(&self, b: &mut PtxBuilder, slot: Reg) -> Reg {
        b.mul_add_wide(Ty::U32, slot, self.slot, self.first)
    }

    /// The descriptor of an instruction of a stage.
    pub(super) fn step(&self, b: &mut PtxBuilder, descriptor: Reg, number: u32) -> Reg {
        match number {
            0 => descriptor,
            _ => b.add(Ty::U64, descriptor, u64::from(number * self.step)),
        }
    }
}
