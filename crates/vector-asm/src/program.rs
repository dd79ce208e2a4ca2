//! Programs: loops around straight-line vector code.
//!
//! A program is a tree of statements. A *value* is defined once, by [`VectorStmt::Let`], and may be used by
//! later statements of the same block and of blocks inside it. A *variable* lives for the whole program and
//! carries values around loops; it starts as zeros. Both are vectors of any number of lanes, which the
//! compiler splits into machine registers. If the operands of an operation differ in length, the shorter ones
//! have one lane, which is broadcast.
//!
//! Operations follow IEEE 754 with rounding to nearest even; the documentation of each operation settles the
//! cases that IEEE 754 leaves open. Nothing traps, and nothing is reordered so that a bit changes.
//!
//! # Memory
//!
//! The function has the signature `fn(args, bindings, scratch, begin, end)`. `args` points to the base
//! addresses, `bindings` to 64-bit integers, and `scratch` to memory that belongs to the call; `begin..end`
//! is the range of the loop with [`LoopRange::Call`]. A [`VectorAddress`] is a base plus an affine offset in
//! bytes. Accesses through different bases do not overlap, unless both only read; accesses through one base
//! may overlap.

use serde::{Deserialize, Serialize};

/// A value, as the index of its type in [`VectorProgram::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Value(pub u32);

/// A variable, as the index of its type in [`VectorProgram::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Variable(pub u32);

/// The counter of a loop. Each loop of a program has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Counter(pub u32);

/// The type of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LaneType {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// 32 bits, signed. Comparisons of 32-bit lanes yield this type: all bits set if the comparison holds,
    /// else none.
    I32,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, signed. Comparisons of 64-bit lanes yield this type.
    I64,
    /// 64 bits, unsigned.
    U64,
}

/// The type of an element in memory, which loads and stores convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StoredType {
    /// The type of the lane.
    Same,
    /// One byte; loads zero-extend it to `I32` or `U32`, stores keep the low bits.
    U8,
    /// One byte; loads sign-extend it to `I32`.
    I8,
    /// Two bytes; loads zero-extend them to `I32` or `U32`, stores keep the low bits.
    U16,
    /// Two bytes; loads sign-extend them to `I32`.
    I16,
    /// IEEE half precision, an `F32` in lanes; stores round to nearest even.
    F16,
    /// bfloat16, the upper half of an `F32` in lanes; stores round to nearest even.
    BF16,
}

/// The type of a value or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VectorType {
    /// The type of each lane.
    pub element: LaneType,
    /// The number of lanes, at least 1.
    pub lanes: u32,
}

/// An index of an affine offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Index {
    /// The counter of an enclosing loop.
    Counter(Counter),
    /// A binding, by its position.
    Binding(u32),
}

/// The addresses of a vector's elements in memory: lane `i` is at `base + offset + Σ coefficient · index +
/// step · i`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VectorAddress {
    /// The position of the base address in `args`; `None` for the scratch memory.
    pub base: Option<u32>,
    /// Bytes from the base to lane 0, without the terms.
    pub offset: i64,
    /// Bytes per unit of each index. An index occurs once.
    pub terms: Vec<(Index, i64)>,
    /// Bytes from one lane to the next: the size of an element if the vector is contiguous, 0 if all lanes
    /// load the same element.
    pub step: i64,
    /// The type of the elements.
    pub memory: StoredType,
}

/// Loops around straight-line vector code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VectorProgram {
    /// The type of each value.
    pub values: Vec<VectorType>,
    /// The type of each variable.
    pub variables: Vec<VectorType>,
    /// The number of loops.
    pub counters: u32,
    /// The statements.
    pub body: Vec<VectorStmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VectorStmt {
    /// Runs the body once for each value of the counter, in ascending order.
    Loop {
        /// The loop's counter.
        counter: Counter,
        /// The counter's values.
        range: LoopRange,
        /// The statements of an iteration.
        body: Vec<VectorStmt>,
    },
    /// Defines a value.
    Let {
        /// The value that is defined.
        value: Value,
        /// The operation that computes it.
        op: VectorOp,
    },
    /// Replaces the lanes of a variable from `start` on; the other lanes keep their values.
    Set {
        /// The variable that changes.
        variable: Variable,
        /// The first lane that changes.
        start: u32,
        /// The new lanes: of the variable's lane type, and no more than the variable has from `start` on. A
        /// value with one lane replaces one lane.
        value: Value,
    },
    /// Stores a value into memory.
    Store {
        /// The destination.
        place: VectorAddress,
        /// The stored value.
        value: Value,
        /// Whether the data is not read again soon, so that the stores may bypass the caches. The function
        /// fences such stores before it returns.
        streaming: bool,
    },
    /// Prefetches the cache line at an address, which need not be mapped.
    Prefetch(VectorAddress),
}

/// The range of a loop's counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LoopRange {
    /// `0..n`.
    Constant(u64),
    /// `0..n`, where `n` is the least of a constant and of sums of indices; no iteration if it is negative.
    Clipped {
        /// The constant, at most 2⁶³ − 1.
        limit: u64,
        /// The sums.
        clips: Vec<CounterSum>,
    },
    /// `begin..end` of the call. At most one loop of a program has this range, and no other loop contains it.
    Call,
}

/// `offset + Σ coefficient · index`, which fits 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CounterSum {
    /// The constant part.
    pub offset: i64,
    /// The coefficients. An index occurs once, and a counter is that of an enclosing loop.
    pub terms: Vec<(Index, i64)>,
}

/// The operation that defines a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VectorOp {
    /// The same bits in every lane; a 32-bit lane takes the low ones.
    Constant(u64),
    /// The elements in memory.
    Load(VectorAddress),
    /// The elements in memory for the lanes whose condition holds, and the lanes of `otherwise` elsewhere;
    /// elements of other lanes are not accessed. The condition is an integer of the lane's size, with as many
    /// lanes or one.
    LoadIf {
        /// The condition of each lane.
        condition: Value,
        /// The address of the elements.
        place: VectorAddress,
        /// The lanes whose condition does not hold.
        otherwise: Value,
    },
    /// The lanes of a variable from `start` on, as many as the value has.
    Get {
        /// The variable that is read.
        variable: Variable,
        /// The first lane.
        start: u32,
    },
    /// The lanes of a value from `start` on, as many as the new value has.
    Slice {
        /// The value that is read.
        of: Value,
        /// The first lane.
        start: u32,
    },
    /// `offset + Σ coefficient · index + step · lane`, wrapped to the lane type, which is an integer.
    Index {
        /// The constant part.
        offset: i64,
        /// The coefficients. An index occurs once.
        terms: Vec<(Index, i64)>,
        /// Increment from lane to lane.
        step: i64,
    },
    /// An operation on an operand of the same lane type.
    Unary(Unary, Value),
    /// An operation on two operands of the same lane type.
    Binary(Binary, Value, Value),
    /// `a · b + c`, rounded once; floats.
    Fma(Value, Value, Value),
    /// A comparison of two operands of one lane type. The value is an integer of that size: all bits set if
    /// the comparison holds, else none.
    Compare(Comparison, Value, Value),
    /// The second operand if all bits of the first are set, and the third if none is. The first operand is an
    /// integer of the others' size, computed from comparisons.
    Select(Value, Value, Value),
    /// The operand's number in another lane type. Floats convert to integers by truncation and saturation,
    /// NaN to 0; any other conversion rounds to nearest even.
    Convert(Value),
    /// The operand's bits as another lane type of the same size.
    Bitcast(Value),
}

/// Operations on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unary {
    /// `-a`: the sign of a float is flipped, an integer wraps.
    Negate,
    /// `|a|`: the sign of a float is cleared, an integer wraps.
    Absolute,
    /// Flips every bit; integers.
    Not,
    /// The square root, correctly rounded; floats.
    SquareRoot,
    /// Rounds down; floats.
    Floor,
    /// Rounds toward zero; floats.
    Truncate,
    /// Rounds to the nearest integer, halves to even; floats.
    RoundEven,
}

/// Operations on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Binary {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Subtract,
    /// `a · b`; integers wrap.
    Multiply,
    /// `a / b`; floats.
    Divide,
    /// `b` if `b > a` or `b` is NaN, else `a`. One instruction if `b` is a constant, else three on floats.
    Maximum,
    /// `b` if `b < a` or `b` is NaN, else `a`. One instruction if `b` is a constant, else three on floats.
    Minimum,
    /// Bitwise and; integers.
    And,
    /// Bitwise or; integers.
    Or,
    /// Bitwise exclusive or; integers.
    Xor,
    /// Shifts left by `b` modulo the number of bits; integers.
    ShiftLeft,
    /// Shifts right by `b` modulo the number of bits, arithmetically if the lane type is signed; integers.
    ShiftRight,
}

/// Comparisons; the result of each is an integer mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Comparison {
    /// `a < b`; false with NaN.
    Less,
    /// `a ≤ b`; false with NaN.
    LessEqual,
    /// `a = b`; false with NaN.
    Equal,
    /// `a ≠ b`; true with NaN.
    NotEqual,
}

impl LaneType {
    /// Bytes of a lane.
    pub fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Bits of a lane.
    pub fn bits(self) -> u32 {
        match self {
            LaneType::F32 | LaneType::I32 | LaneType::U32 => 32,
            LaneType::F64 | LaneType::I64 | LaneType::U64 => 64,
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, LaneType::F32 | LaneType::F64)
    }

    /// Whether this is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, LaneType::I32 | LaneType::I64)
    }
}

impl StoredType {
    /// Bytes of an element in memory; `None` for the size of the lane.
    pub fn bytes(self) -> Option<u32> {
        match self {
            StoredType::Same => None,
            StoredType::U8 | StoredType::I8 => Some(1),
            StoredType::U16 | StoredType::I16 | StoredType::F16 | StoredType::BF16 => Some(2),
        }
    }
}
