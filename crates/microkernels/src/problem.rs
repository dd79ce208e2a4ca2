//! The description of a GEMM: its dimensions, operands A and B, initial accumulators, and epilogue.
//!
//! ```text
//! for batch, for row in 0..m, for column in 0..n {
//!   accumulator := initial
//!   for p in 0..k { accumulator := fma(a[batch, row, p], b[batch, p, column], accumulator) }
//!   epilogue
//! }
//! ```
//!
//! One dimension of a GEMM may stand for several loops of the original computation. In a convolution (an
//! implicit GEMM), N stands for the pixels of an image, and K for the channels and taps of a filter. An
//! element's offset is then not a multiple of its position along a dimension, so it is the sum of two table
//! entries, one for each dimension of the operand ([`AxisOffsets`]). Elements outside of the image are zero:
//! [`OperandBound`].
//!
//! The epilogue is a program of `vector-asm` for one row and some neighboring columns. It is compiled with
//! as many lanes as a register tile has columns, and runs for each row of the tile.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vector_asm::{Counter, Index, LaneType, StoredType, Variable, VectorAddress, VectorProgram};

/// A batch of matrix products with a fused epilogue. Offsets are in bytes; a base is a position in the
/// arguments of [`GemmPlan::run`](crate::GemmPlan::run).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GemmProblem {
    /// The type of accumulators: `F32`, `F64`, or `I32`, which wraps and has operands of 8 bits.
    pub element: LaneType,
    /// Extents of the batch loops, outermost first. Each iteration is a separate matrix product.
    pub batch: Vec<u64>,
    /// Rows of A and of the output.
    pub m: u64,
    /// Columns of B and of the output.
    pub n: u64,
    /// Columns of A and rows of B: how many products each accumulator adds.
    pub k: u64,
    /// The dimensions whose extents are known at each call only. Their fields above have the greatest
    /// extents.
    pub dynamic: Vec<(Dimension, DynamicExtent)>,
    /// Operand A, `m × k`.
    pub a: GemmOperand,
    /// Operand B, `k × n`.
    pub b: GemmOperand,
    /// The initial accumulators, by the same indices as the epilogue's places; `None` for zeros.
    pub initial: Option<VectorAddress>,
    /// The statements that consume the accumulators, without loops. The variable [`ACCUMULATORS`] holds the
    /// accumulators of the row [`ROW`] and of [`EPILOGUE_LANES`] neighboring columns from [`COLUMN`] on.
    /// Values and variables have [`EPILOGUE_LANES`] lanes or one. Places may use these two indices, the batch
    /// indices ([`batch_index`]) and bindings. Stores are contiguous along the columns.
    pub epilogue: VectorProgram,
    /// The loop whose iterations calls may divide among threads.
    pub parallel: ParallelAxis,
}

/// A dimension of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dimension {
    /// A batch loop, by its position.
    Batch(usize),
    /// Rows.
    M,
    /// Columns.
    N,
    /// Products.
    K,
}

/// An extent that follows from the bindings of a call: the sum, or 0 if that is negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DynamicExtent {
    /// The summand without a binding.
    pub offset: i64,
    /// Bindings with their factors.
    pub terms: Vec<(u32, i64)>,
}

/// Operand A or B in memory. Its *outer* dimension is M for A and N for B.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GemmOperand {
    /// The position of the base address in the arguments.
    pub base: u32,
    /// The stored type. Of floats, `Same` as the accumulators, `F16` or `BF16`; of integers, `U8` or `I8`.
    pub memory: StoredType,
    /// Bytes from the base to the element at position 0 of both dimensions.
    pub offset: i64,
    /// Bytes per unit of each batch index and of each binding.
    pub terms: Vec<(Index, i64)>,
    /// Offsets along the outer dimension: rows of A, columns of B.
    pub outer: AxisOffsets,
    /// Offsets along K.
    pub k: AxisOffsets,
    /// Conditions for an element to exist. Other elements are [`GemmOperand::outside`], and their memory is
    /// not read.
    pub bounds: Vec<OperandBound>,
    /// The bits of an integer that does not exist. Floats that do not exist are zero, whatever this is.
    pub outside: u8,
    /// What is subtracted from each integer, after `outside` took the place of those that do not exist.
    pub zero: i32,
}

/// Offsets in bytes by position along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AxisOffsets {
    /// Bytes from a position to the next.
    Strided(i64),
    /// Bytes from position 0, for each position.
    Table(#[serde(with = "table")] Arc<[i64]>),
}

/// Tables as data.
mod table {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(table: &Arc<[i64]>, to: S) -> Result<S::Ok, S::Error> {
        table.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[i64]>, D::Error> {
        Vec::deserialize(from).map(Arc::from)
    }
}

/// A condition for an element of an operand to exist: `0 ≤ outer[i] + k[p] < limit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OperandBound {
    /// Summand by position along the outer dimension.
    #[serde(with = "table")]
    pub outer: Arc<[i64]>,
    /// Summand by position along K.
    #[serde(with = "table")]
    pub k: Arc<[i64]>,
    /// Exclusive upper limit of the sum.
    pub limit: i64,
}

/// The loop that the range `begin..end` of a call indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ParallelAxis {
    /// No loop: every call computes everything.
    None,
    /// The outermost batch loop.
    Batch,
    /// Rows of the output.
    Rows,
    /// Columns of the output.
    Columns,
}

/// The variable of an epilogue that holds the accumulators.
pub const ACCUMULATORS: Variable = Variable(0);

/// The number of lanes of the values in an epilogue. When the epilogue is compiled for a tile, these lanes
/// stand for the tile's columns, however many there are.
pub const EPILOGUE_LANES: u32 = 8;

/// The row index of an epilogue.
pub const ROW: Index = Index::Counter(Counter(0));

/// The column index of lane 0 of an epilogue.
pub const COLUMN: Index = Index::Counter(Counter(1));

/// The index of the batch loop at a position of [`GemmProblem::batch`].
pub fn batch_index(position: u32) -> Index {
    Index::Counter(Counter(2 + position))
}
