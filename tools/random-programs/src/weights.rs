//! The weights of the generator: tables from which it chooses, where an entry that occurs more often is
//! chosen more often. The first entry of a table is the simplest; it is chosen after the bytes have run out.

use tnode::DType;

use crate::program::{Accumulation, BinaryFunction, NodeMode, ProgramNumber, UnaryFunction};

/// The kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Assigns or accumulates an expression over letters.
    Assign,
    /// Fills a node with numbers.
    Fill,
    /// Makes a node a view of another one.
    Slice,
    /// Concatenates two values, or splits a value between two targets.
    Concatenation,
}

/// The kinds of targets of assignments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// All elements of a new node.
    Plain,
    /// Some elements of a new node: strided, reversed, diagonal, shifted by a symbol.
    Partial,
    /// Computed elements of a new node.
    Scatter,
    /// An existing node.
    Rewrite,
}

/// The kinds of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionKind {
    /// A leaf.
    Leaf,
    /// A function of one argument, from [`ProgramWeights::functions`].
    Function,
    /// A conversion to another type.
    Cast,
    /// A choice between two values.
    Where,
    /// A fused multiply-add.
    Fma,
    /// A comparison.
    Comparison,
    /// An operation on the bits of integers.
    Bits,
    /// An operator, from [`ProgramWeights::operators`].
    Operator,
}

/// The kinds of leaves of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// An element of a node.
    Read,
    /// A number, from [`ProgramWeights::numbers`].
    Number,
    /// A letter; a symbol in statements without letters.
    Letter,
    /// A symbol, or a letter less the number of its values.
    Symbol,
    /// An element of a node at a computed index.
    Gather,
    /// The element being written, where the statement may read it.
    Own,
}

/// The kinds of initial data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// Small integers.
    Small,
    /// Fractions between −1 and 1.
    Fractions,
    /// Any bits.
    Bits,
    /// Zeros of either sign, infinities, NaN, subnormals and the ends of ranges.
    Special,
    /// Each element of another kind.
    Mixture,
}

/// The constructs of programs with their frequencies, and the maximum sizes of programs.
#[derive(Clone, Debug)]
pub struct ProgramWeights {
    /// The number of routines.
    pub routines: &'static [usize],
    /// The maximum number of statements of a routine.
    pub statements_per_routine: usize,
    /// The maximum number of rounds of runs.
    pub rounds: usize,
    /// The maximum number of points of a statement's product space; nodes have at most four times as many
    /// elements.
    pub points: usize,
    /// The extents of letters.
    pub extents: &'static [usize],
    /// The element types of nodes and conversions.
    pub types: &'static [DType],
    /// The kinds of statements.
    pub statements: &'static [StatementKind],
    /// The operations of assignments.
    pub accumulations: &'static [Accumulation],
    /// The kinds of targets.
    pub targets: &'static [TargetKind],
    /// The memory modes of results, except the last one, which always has memory.
    pub result_modes: &'static [NodeMode],
    /// Whether some nodes have margins.
    pub has_margins: bool,
    /// Whether some reads are in margins. The optimizer rejects some of these programs: a routine that sets
    /// margins counts as overwriting the node that an inlined subexpression reads.
    pub reads_margins: bool,
    /// Whether some reads are in `pad`, with indices outside of their node.
    pub has_pad: bool,
    /// The number of letters of a target.
    pub ranks: &'static [usize],
    /// The fraction of reads, as `(part, whole)`, that read an existing node rather than a new input.
    pub rereads: (usize, usize),
    /// The number of levels of an assignment's expression.
    pub levels: &'static [usize],
    /// The kinds of expressions.
    pub expressions: &'static [ExpressionKind],
    /// The kinds of leaves.
    pub leaves: &'static [LeafKind],
    /// The functions of one argument.
    pub functions: &'static [UnaryFunction],
    /// The operators other than comparisons and bit operations, which are kinds of expressions of their own.
    pub operators: &'static [BinaryFunction],
    /// The numbers in expressions.
    pub numbers: &'static [ProgramNumber],
    /// The kinds of initial data.
    pub data: &'static [DataKind],
}

const TYPES: [DType; 24] = {
    use DType::{Bf16, Bool, F16, F32, F64, Fp8E4m3fn, Fp8E5m2, I8, I32, I64, U8, U16, U32, U64};
    [
        F32, F32, F64, I32, F32, I64, U8, Bool, F16, Bf16, Fp8E5m2, Fp8E4m3fn, I8, U16, U32, U64, F32, F32,
        F64, I32, F32, F16, I64, Bool,
    ]
};

const NUMBERS: [ProgramNumber; 14] = {
    use ProgramNumber::{Fraction as F, Infinity, Integer as I, Nan};
    [I(2), F(0.5), I(1), I(0), I(3), F(1.5), F(0.1), I(7), F(0.25), F(3.0), I(100), F(2.0), Infinity, Nan]
};

const STATEMENTS: [StatementKind; 24] = {
    let mut all = [StatementKind::Assign; 24];
    (all[21], all[22], all[23]) = (StatementKind::Fill, StatementKind::Slice, StatementKind::Concatenation);
    all
};

const ASSIGNMENTS: [StatementKind; 16] = {
    let mut all = [StatementKind::Assign; 16];
    (all[14], all[15]) = (StatementKind::Fill, StatementKind::Concatenation);
    all
};

const LEAVES: [LeafKind; 16] = {
    use LeafKind::{Gather, Letter, Number, Own, Read, Symbol};
    [Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Number, Number, Letter, Symbol, Gather, Own]
};

const MODES: [NodeMode; 12] = {
    use NodeMode::{Materialized as M, Undecided as U, Virtual as V};
    [U, U, U, U, U, U, V, M, M, M, M, M]
};

const TARGETS: [TargetKind; 10] = {
    use TargetKind::{Partial, Plain, Rewrite, Scatter};
    [Plain, Plain, Plain, Plain, Plain, Partial, Scatter, Rewrite, Rewrite, Rewrite]
};

const EXPRESSIONS: [ExpressionKind; 14] = {
    use ExpressionKind::{Bits, Cast, Comparison, Fma, Function, Leaf, Operator, Where};
    [
        Leaf, Leaf, Function, Function, Function, Cast, Where, Fma, Comparison, Bits, Operator, Operator,
        Operator, Operator,
    ]
};

const OPERATORS: [BinaryFunction; 16] = {
    use BinaryFunction::{Add, And, Div, Max, Min, Mul, Or, Pow, ReluGate, Rem, Satur01Gate, Sub};
    [Add, Mul, Sub, Mul, Add, Max, Min, Div, Rem, Pow, ReluGate, Satur01Gate, And, Or, Add, Mul]
};

const ALL_OPERATORS: [BinaryFunction; 18] = {
    use BinaryFunction::{
        Add, And, Arg1, Arg2, Div, Max, Min, Mul, Or, Pow, ReluGate, Rem, Satur01Gate, Sub,
    };
    [Add, Mul, Sub, Mul, Add, Max, Min, Div, Rem, Pow, ReluGate, Satur01Gate, And, Or, Arg1, Arg2, Add, Mul]
};

/// Mostly `f32`: one node of a narrow type makes the bound of the whole program wide.
const FLOATS: [DType; 24] = {
    let mut all = [DType::F32; 24];
    (all[5], all[11], all[17], all[23]) = (DType::F64, DType::F16, DType::F64, DType::Bf16);
    all
};

/// Extents around the sizes of vectors and tiles, and some that divide work over threads.
const LARGE: [usize; 18] = [2, 3, 1, 4, 5, 7, 8, 9, 6, 16, 17, 32, 33, 65, 70, 257, 300, 1000];

impl ProgramWeights {
    /// Several routines with every kind of statement, target and expression, and every element type except
    /// `u32x4`.
    pub fn several_routines() -> ProgramWeights {
        use Accumulation::{Add, And, Div, Max, Min, Mul, Or, Store, Sub};
        ProgramWeights {
            routines: &[1, 1, 2, 1, 2, 3],
            statements_per_routine: 4,
            rounds: 3,
            points: 1500,
            extents: &[2, 3, 1, 4, 5, 7, 8, 9, 16, 17, 33, 6, 65, 31, 12, 130, 0, 260],
            types: &TYPES,
            statements: &STATEMENTS,
            accumulations: &[
                Store, Add, Store, Add, Max, Store, Min, Mul, Add, Store, Sub, Or, Store, Add, And, Div,
            ],
            targets: &TARGETS,
            result_modes: &MODES,
            has_margins: true,
            reads_margins: true,
            has_pad: true,
            ranks: &[1, 2, 0, 3, 2, 1],
            rereads: (1, 2),
            levels: &[1, 2, 0, 3, 2, 1],
            expressions: &EXPRESSIONS,
            leaves: &LEAVES,
            functions: UnaryFunction::ALL,
            operators: &OPERATORS,
            numbers: &NUMBERS,
            data: {
                use DataKind::{Bits, Fractions, Mixture, Small, Special};
                &[Small, Fractions, Small, Bits, Special, Mixture]
            },
        }
    }

    /// One routine with small nodes, for tests that interpret every program: no margins, and no memory mode
    /// that the optimizer could be unable to honor.
    pub fn one_routine() -> ProgramWeights {
        use Accumulation::{Add, And, Div, Max, Min, Mul, Or, Store, Sub};
        use NodeMode::{Materialized as M, Undecided as U};
        ProgramWeights {
            routines: &[1],
            rounds: 1,
            points: 150,
            extents: &[2, 3, 1, 4, 5],
            statements: &ASSIGNMENTS,
            accumulations: &[
                Store, Store, Add, Store, Add, Max, Store, Add, Mul, Min, Store, Sub, Or, Store, Add, And,
                Div,
            ],
            result_modes: &[U, U, U, U, U, U, U, M],
            has_margins: false,
            reads_margins: false,
            ..ProgramWeights::several_routines()
        }
    }

    /// One routine with nodes large enough for vectors, tiles and threads, and with every operation.
    pub fn large_nodes() -> ProgramWeights {
        use Accumulation::{
            Add, And, Div, Max, Min, Mul, Or, Pow, ReluGate, Satur01Gate as Satur, Store, Sub,
        };
        ProgramWeights {
            statements_per_routine: 5,
            points: 2500,
            levels: &[1, 0, 2, 1, 2, 1],
            extents: &LARGE,
            accumulations: &[
                Store, Add, Store, Add, Max, Min, Mul, Store, Add, Store, Add, Max, Min, Mul, Sub, Div, Or,
                And, Pow, ReluGate, Satur,
            ],
            operators: &ALL_OPERATORS,
            has_margins: true,
            ..ProgramWeights::one_routine()
        }
    }

    /// One routine with large nodes of floats, and operations through which rounding errors spread in
    /// proportion to magnitudes.
    pub fn bounded_errors() -> ProgramWeights {
        use Accumulation::{Add, Max, Min, Store, Sub};
        use BinaryFunction as Op;
        use ExpressionKind::{Fma, Function, Leaf, Operator};
        use LeafKind::{Number, Own, Read};
        use ProgramNumber::Fraction;
        use TargetKind::{Partial, Plain, Rewrite};
        ProgramWeights {
            statements_per_routine: 3,
            levels: &[1, 0, 1, 2],
            types: &FLOATS,
            statements: &[StatementKind::Assign],
            accumulations: &[Store, Add, Add, Add, Max, Min, Sub],
            targets: &[Plain, Plain, Plain, Plain, Partial, Rewrite],
            expressions: &[
                Leaf, Operator, Operator, Operator, Operator, Operator, Function, Function, Fma, Leaf,
            ],
            leaves: &[Read, Read, Read, Read, Read, Read, Number, Own],
            functions: &[UnaryFunction::Neg, UnaryFunction::Abs, UnaryFunction::Relu],
            operators: &[Op::Mul, Op::Add, Op::Mul, Op::Add, Op::Sub, Op::Max, Op::Min],
            numbers: &[Fraction(2.0), Fraction(0.5), Fraction(1.5), Fraction(0.1)],
            data: &[DataKind::Fractions],
            ..ProgramWeights::large_nodes()
        }
    }

    /// One routine of several statements that read earlier results at other positions. Some statements update
    /// a node in place or write a part of it. Most results are stored, but only for the duration of the run.
    pub fn chains() -> ProgramWeights {
        use Accumulation::{Add, Max, Store};
        use BinaryFunction as Op;
        use ExpressionKind::{Comparison, Function, Operator, Where};
        use LeafKind::{Number, Own, Read, Symbol};
        use NodeMode::{Materialized, NeverVirtual};
        use TargetKind::{Partial, Plain, Rewrite};
        ProgramWeights {
            statements_per_routine: 12,
            points: 24,
            extents: &[24],
            types: &[DType::F32],
            statements: &[StatementKind::Assign],
            accumulations: &[Store, Store, Add, Store, Max, Add],
            targets: &[Plain, Plain, Plain, Plain, Partial, Rewrite],
            result_modes: &[NeverVirtual, NeverVirtual, NeverVirtual, Materialized],
            ranks: &[1],
            rereads: (9, 10),
            levels: &[2, 1],
            expressions: &[Operator, Operator, Operator, Function, Where, Comparison],
            leaves: &[Read, Read, Read, Read, Read, Read, Number, Symbol, Own],
            functions: &[UnaryFunction::Sqrt, UnaryFunction::Abs, UnaryFunction::Relu],
            operators: &[Op::Mul, Op::Add, Op::Sub, Op::Max],
            ..ProgramWeights::one_routine()
        }
    }

    /// One routine of floats and integers, mostly of operations that have a derivative, whose values stay
    /// moderate.
    pub fn differentiable() -> ProgramWeights {
        use Accumulation::{Add, Div, Max, Min, Mul, Store, Sub};
        use BinaryFunction as Op;
        use ExpressionKind::{Cast, Comparison, Fma, Function, Leaf, Operator, Where};
        use LeafKind::{Gather, Letter, Number, Own, Read, Symbol};
        use ProgramNumber::Fraction;
        use StatementKind::{Assign, Concatenation, Slice};
        use TargetKind::{Partial, Plain, Rewrite, Scatter};
        use UnaryFunction::{Abs, Cos, Exp, Neg, Recip, Relu, Satur01, Sin, Sqrt, Tanh};
        ProgramWeights {
            statements_per_routine: 4,
            points: 60,
            extents: &[2, 3, 1, 4],
            types: &[DType::F64, DType::F64, DType::F64, DType::F64, DType::F64, DType::I32],
            statements: &[Assign, Assign, Assign, Concatenation, Slice],
            accumulations: &[Store, Add, Store, Add, Max, Add, Mul, Min, Store, Sub, Div, Store],
            targets: &[Plain, Plain, Partial, Scatter, Rewrite, Rewrite],
            result_modes: &[NodeMode::Undecided],
            ranks: &[1, 2, 0, 2, 3],
            rereads: (2, 3),
            levels: &[1, 2, 0, 1],
            expressions: &[
                Leaf, Operator, Operator, Operator, Function, Function, Where, Fma, Comparison, Cast,
            ],
            leaves: &[Read, Read, Read, Read, Read, Read, Gather, Own, Number, Letter, Symbol, Own],
            functions: &[Sin, Tanh, Neg, Abs, Relu, Exp, Cos, Satur01, Sin, Tanh, Sqrt, Recip],
            operators: &[Op::Mul, Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min, Op::Div, Op::ReluGate],
            numbers: &[Fraction(0.5), ProgramNumber::Integer(1), Fraction(1.5), Fraction(0.3)],
            ..ProgramWeights::one_routine()
        }
    }

    /// Programs of the kind of [`differentiable`](Self::differentiable), smaller, with margins and with every
    /// operation that the text has for floats.
    pub fn every_derivative() -> ProgramWeights {
        use Accumulation::{
            Add, And, Div, Max, Min, Mul, Or, Pow, ReluGate, Satur01Gate as Satur, Store, Sub,
        };
        use StatementKind::{Assign, Concatenation, Fill, Slice};
        ProgramWeights {
            points: 24,
            statements: &[Assign, Assign, Assign, Assign, Concatenation, Fill, Slice],
            accumulations: &[
                Store, Add, Store, Max, Add, Mul, Min, Store, Sub, Div, Pow, ReluGate, Satur, Or, And, Store,
            ],
            has_margins: true,
            reads_margins: true,
            functions: UnaryFunction::ALL,
            operators: &ALL_OPERATORS,
            ..ProgramWeights::differentiable()
        }
    }
}
