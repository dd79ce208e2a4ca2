//! What a contraction is: three axes, two factors, where sums begin and what becomes of them.
//!
//! ```text
//! for batch, for row in 0..rows, for column in 0..columns {
//!   sum := start
//!   for k in 0..depth { sum := fma(left[batch, row, k], right[batch, k, column], sum) }
//!   epilogue
//! }
//! ```
//!
//! An axis may stand for several loops of the original computation: pixels of an image for columns; channels and the taps of a filter for
//! depth. Where an element of a factor lies is then no multiple of the position on the axis, so it is the sum of an offset by
//! position on each of the factor's two axes ([`Offsets`]). What a convolution reads outside of the image is zero: [`Bounds`].
//!
//! The epilogue is a template, a program of `vector-asm` for one row and some neighbouring columns; the compiler of tiles repeats it for each row of a
//! tile, with as many lanes as the tile has columns.

use std::sync::Arc;

use vector_asm::{Counter, Element, Index, Memory, Place, Program, Variable};

/// A contraction. Offsets are in bytes; bases are positions in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    /// What is multiplied and added: `F32` or `F64`.
    pub element: Element,
    /// The loops around it, outermost first; each iteration is a product of its own.
    pub batch: Vec<u64>,
    /// How many rows.
    pub rows: u64,
    /// How many columns.
    pub columns: u64,
    /// How many products are added for each output.
    pub depth: u64,
    /// The factor with rows and depth.
    pub left: Factor,
    /// The factor with depth and columns.
    pub right: Factor,
    /// Where sums begin: at what lies here for each output, or at zero. The place's indices are those of the epilogue.
    pub start: Option<Place>,
    /// What becomes of the sums: statements without loops, in which the variable [`SUM`] holds the sums of the row [`ROW`] and of [`LANES`] neighbouring
    /// columns from [`COLUMN`] on. Values and variables have [`LANES`] lanes or one. Places may mention these two indices, those of the
    /// batch ([`batch_index`]) and bindings. What it stores, it stores contiguously along the columns.
    pub epilogue: Program,
    /// What the range of a call counts.
    pub split: Split,
}

/// One of the two things multiplied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// Which base address.
    pub base: u32,
    /// What its elements are: `Same`, `F16` or `BF16`.
    pub memory: Memory,
    /// From the base to the element at position 0 of both axes.
    pub offset: i64,
    /// What each index of the batch, and each binding, adds.
    pub terms: Vec<(Index, i64)>,
    /// By position on the axis of outputs: rows for the left factor, columns for the right one.
    pub outer: Offsets,
    /// By position on the axis of products.
    pub depth: Offsets,
    /// Where the factor is zero; elements there are not read.
    pub bounds: Vec<Bounds>,
}

/// Offsets by position on an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Offsets {
    /// So many bytes per position.
    Strided(i64),
    /// An entry for each position.
    Table(Arc<[i64]>),
}

/// A condition for elements of a factor to exist: `0 ≤ outer[i] + depth[k] < limit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// One summand, by position on the axis of outputs.
    pub outer: Arc<[i64]>,
    /// The other, by position on the axis of products.
    pub depth: Arc<[i64]>,
    /// What the sum must be less than.
    pub limit: i64,
}

/// What the range `begin..end` of a call counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Nothing: every call does all.
    None,
    /// Iterations of the outermost loop of the batch.
    Batch,
    /// Rows.
    Rows,
    /// Columns.
    Columns,
}

/// The variable of an epilogue that holds the sums.
pub const SUM: Variable = Variable(0);

/// How many lanes values of an epilogue have: a stand-in for those of a tile.
pub const LANES: u32 = 8;

/// The index of the row.
pub const ROW: Index = Index::Counter(Counter(0));

/// The index of the column that lane 0 is.
pub const COLUMN: Index = Index::Counter(Counter(1));

/// The index of a loop of the batch, by its position.
pub fn batch_index(position: u32) -> Index {
    Index::Counter(Counter(2 + position))
}
