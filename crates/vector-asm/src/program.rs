//! Programs: loops around straight-line vector code.
//!
//! A program is a tree of statements. *Values* are defined once, by [`Stmt::Let`], and may be used by later statements of the same block and of
//! the blocks inside it. *Variables* live for the whole program and are what loops carry; they begin as zeros. Both are vectors of
//! any number of lanes; how many machine registers that makes is the compiler's business. In an operation on vectors of different lengths the
//! shorter ones have one lane, which stands for all.
//!
//! Operations mean what they mean in IEEE 754 with rounding to nearest even, and what is written below where that leaves a choice.
//! Nothing traps and nothing is reordered so that a bit changes.
//!
//! # Memory
//!
//! The function has the signature `fn(args, bindings, scratch, begin, end)`: `args` points to the base addresses, `bindings` to 64-bit integers,
//! `scratch` to memory of the call, and `begin..end` is the range of the loop that has [`Range::Part`]. A [`Place`] is at a base plus an affine offset in
//! bytes. Two places with different bases never overlap, unless nobody writes either; places with one base may.

/// A value, by the position of its definition in [`Program::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

/// A variable, by its position in [`Program::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub u32);

/// The counter of a loop; each loop of a program has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(pub u32);

/// What a lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// 32 bits; signed where that matters. Comparisons of 32-bit lanes give these: all bits set, or none.
    I32,
    /// 32 bits; unsigned where that matters.
    U32,
    /// 64 bits; signed where that matters. Comparisons of 64-bit lanes give these.
    I64,
    /// 64 bits; unsigned where that matters.
    U64,
}

/// What an element in memory is, where a lane is not stored as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// As in the lane.
    Same,
    /// One byte; loads extend with zeros to `I32` or `U32`, stores keep the low bits.
    U8,
    /// One byte; loads extend the sign to `I32`.
    I8,
    /// Two bytes; loads extend with zeros to `I32` or `U32`, stores keep the low bits.
    U16,
    /// Two bytes; loads extend the sign to `I32`.
    I16,
    /// IEEE half precision as `F32`; stores round to nearest even.
    F16,
    /// The upper half of an `F32`; stores round to nearest even.
    BF16,
}

/// The type of a value or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// What each lane holds.
    pub element: Element,
    /// How many lanes; at least 1.
    pub lanes: u32,
}

/// What an offset may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Index {
    /// The counter of a loop around the statement.
    Counter(Counter),
    /// A binding, by its position.
    Binding(u32),
}

/// Where something is in memory: as many elements as the value has lanes, `step` bytes apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which base address: a position in `args`; `None` is the scratch memory.
    pub base: Option<u32>,
    /// Bytes from the base to lane 0, without the terms.
    pub offset: i64,
    /// Bytes per unit of each index; each index once.
    pub terms: Vec<(Index, i64)>,
    /// Bytes from one lane to the next. The size of an element: contiguous. 0: the same element for all lanes (loads only).
    pub step: i64,
    /// What the elements are.
    pub memory: Memory,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// The type of each value.
    pub values: Vec<Type>,
    /// The type of each variable.
    pub variables: Vec<Type>,
    /// How many loops there are.
    pub counters: u32,
    /// The statements.
    pub body: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Runs the body once for each value of the counter, ascending.
    Loop {
        /// Which counter.
        counter: Counter,
        /// Its values.
        range: Range,
        /// What is run.
        body: Vec<Stmt>,
    },
    /// Defines a value.
    Let {
        /// Which value.
        value: Value,
        /// What it is.
        op: Op,
    },
    /// Stores a value into the lanes of a variable that begin at `start`; the others keep what they hold.
    Set {
        /// Which variable.
        variable: Variable,
        /// The first lane.
        start: u32,
        /// What is stored: the same element, and no more lanes than are left. A value with one lane fills one lane.
        value: Value,
    },
    /// Stores a value into memory.
    Store {
        /// Where.
        place: Place,
        /// What.
        value: Value,
        /// Whether the memory is not read again soon, so that stores may go past the caches. The function makes such stores visible to others
        /// before it returns.
        streaming: bool,
    },
    /// Asks for the cache line at a place, which need not exist.
    Prefetch(Place),
}

/// The values of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// `0..n`.
    To(u64),
    /// The part of the call: `begin..end`. One loop at most, which stands in no other.
    Part,
}

/// How a value is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The same bits in every lane; the low ones, where the element has fewer than 64.
    Constant(u64),
    /// What is in memory.
    Load(Place),
    /// What is in memory where a condition holds, which is all that is touched, and another value elsewhere. The condition is an integer of the
    /// size of the value's element, with as many lanes, or one.
    LoadIf {
        /// The condition.
        condition: Value,
        /// Where in memory.
        place: Place,
        /// The other value.
        otherwise: Value,
    },
    /// Lanes of a variable from `start` on, as many as the value has.
    Get {
        /// Which variable.
        variable: Variable,
        /// The first lane.
        start: u32,
    },
    /// Lanes of a value from `start` on, as many as the new value has.
    Slice {
        /// Which value.
        of: Value,
        /// The first lane.
        start: u32,
    },
    /// `offset + Σ coefficient · index + step · lane`, wrapped to the element, an integer.
    Index {
        /// The constant part.
        offset: i64,
        /// The coefficients; each index once.
        terms: Vec<(Index, i64)>,
        /// How much each lane adds.
        step: i64,
    },
    /// An operation on one operand of the value's element.
    Unary(Unary, Value),
    /// An operation on two operands of the value's element.
    Binary(Binary, Value, Value),
    /// `a · b + c`, rounded once; floats.
    Fma(Value, Value, Value),
    /// A comparison of two operands of one element; the value is an integer of that size, all bits set where it holds, and no bit
    /// elsewhere.
    Compare(Comparison, Value, Value),
    /// The second operand where the first, the result of a comparison or made of such, has all bits set, else the third. The first is an integer
    /// of the size of the others.
    Select(Value, Value, Value),
    /// The operand's number in another element. Floats to integers truncate and saturate, NaN is 0; the rest is rounded to nearest even.
    Convert(Value),
    /// The operand's bits as another element of the same size.
    Bitcast(Value),
}

/// Operations on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// `-a`: the sign of a float is flipped, an integer wraps.
    Negate,
    /// `|a|`: the sign of a float is cleared, an integer wraps.
    Absolute,
    /// Every bit flipped; integers.
    Not,
    /// The square root, correctly rounded; floats.
    SquareRoot,
    /// Rounded down; floats.
    Floor,
    /// Rounded toward zero; floats.
    Truncate,
    /// Rounded to the nearest integer, halves to even; floats.
    RoundEven,
}

/// Operations on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Subtract,
    /// `a · b`; integers wrap.
    Multiply,
    /// `a / b`; floats.
    Divide,
    /// `a > b ? a : b`.
    Maximum,
    /// `a < b ? a : b`.
    Minimum,
    /// Bits set in both; integers.
    And,
    /// Bits set in either; integers.
    Or,
    /// Bits set in one alone; integers.
    Xor,
    /// Shifted left by `b` modulo the size; integers.
    ShiftLeft,
    /// Shifted right by `b` modulo the size, extending the sign of signed elements; integers.
    ShiftRight,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl Element {
    /// Bytes of a lane.
    pub fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Bits of a lane.
    pub fn bits(self) -> u32 {
        match self {
            Element::F32 | Element::I32 | Element::U32 => 32,
            Element::F64 | Element::I64 | Element::U64 => 64,
        }
    }

    /// Whether it is a floating-point format.
    pub fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64)
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Element::I32 | Element::I64)
    }

    /// The low bits that a lane has room for.
    pub(crate) fn truncate(self, bits: u64) -> u64 {
        if self.bits() == 32 { bits & 0xffff_ffff } else { bits }
    }

    /// The number that a lane of a signed integer holds.
    pub(crate) fn signed(self, bits: u64) -> i64 {
        if self.bits() == 32 { i64::from(bits as u32 as i32) } else { bits as i64 }
    }
}

impl Memory {
    /// Bytes of an element in memory; `None`: as many as a lane has.
    pub fn bytes(self) -> Option<u32> {
        match self {
            Memory::Same => None,
            Memory::U8 | Memory::I8 => Some(1),
            Memory::U16 | Memory::I16 | Memory::F16 | Memory::BF16 => Some(2),
        }
    }
}
