//! The element types of random programs, and the operations of each.

use lowered_ir::ir::BinaryOp;
use tnode::DType;

/// Types of nodes and locals: all types, `f32` most often, as in real programs.
const TYPES: [DType; 26] = {
    use DType::{Bf16, Bool, F16, F32, F64, Fp8E4m3fn, Fp8E5m2, I8, I32, I64, U8, U16, U32, U32x4, U64};
    [
        F32, F32, F64, I32, F32, I64, U8, Bool, F16, Bf16, Fp8E5m2, Fp8E4m3fn, I8, U16, U32, U64, U32x4, F32,
        F32, F64, I32, F32, Bool, I64, U32x4, F16,
    ]
};

/// Types with arithmetic.
pub(super) const NUMBERS: [DType; 20] = {
    use DType::{Bf16, Bool, F16, F32, F64, Fp8E4m3fn, Fp8E5m2, I8, I32, I64, U8, U16, U32, U64};
    [
        F32, F32, I32, F64, U8, F16, Bf16, Bool, I64, U32, I8, U16, U64, Fp8E5m2, Fp8E4m3fn, F32, F64, I32,
        F32, I64,
    ]
};

/// Types of computed indices.
const INTEGERS: [DType; 7] = {
    use DType::{I8, I32, I64, U8, U16, U32, U64};
    [I32, I64, U8, U32, I8, U16, U64]
};

/// The operations that are common in real programs.
pub(super) const COMMON: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Sub, BinaryOp::Max, BinaryOp::Div, BinaryOp::Min];

/// Operations whose operands and result are numbers of the type.
pub(super) fn binary_ops(dtype: DType) -> Vec<BinaryOp> {
    let defined =
        |op: &BinaryOp| !(op.is_comparison() || op.is_random() || op.is_bitwise() && dtype.is_float());
    BinaryOp::ALL.iter().copied().filter(defined).collect()
}

/// Operations whose operands and result are random bits.
pub(super) fn random_ops() -> Vec<BinaryOp> {
    let defined = |op: &BinaryOp| op.is_random() || matches!(op, BinaryOp::Arg1 | BinaryOp::Arg2);
    BinaryOp::ALL.iter().copied().filter(defined).collect()
}

/// Comparisons.
pub(super) fn comparisons() -> Vec<BinaryOp> {
    BinaryOp::ALL.iter().copied().filter(|op| op.is_comparison()).collect()
}

/// Operations that combine an accumulated value with a new one.
pub(super) fn accumulating_ops() -> Vec<BinaryOp> {
    BinaryOp::ALL.iter().copied().filter(|op| op.accumulates()).collect()
}

/// The element types of a random routine, each list with the common types repeated.
#[derive(Clone, Debug)]
pub struct TypeChoice {
    /// Types of nodes and locals.
    pub(super) all: Vec<DType>,
    /// Types with arithmetic.
    pub(super) numbers: Vec<DType>,
    /// Types of computed indices.
    pub(super) integers: Vec<DType>,
    /// Types of embedded indices.
    pub(super) embedded: Vec<DType>,
}

impl TypeChoice {
    /// Every type.
    pub fn all() -> TypeChoice {
        TypeChoice::only(|_| true)
    }

    /// The allowed types, and `f32`, `i32` and `bool` in any case. `u32x4` needs `u32` as well.
    pub fn only(allowed: impl Fn(DType) -> bool) -> TypeChoice {
        let always = |dtype: DType| matches!(dtype, DType::F32 | DType::I32 | DType::Bool);
        let fits = |dtype: &DType| {
            always(*dtype) || allowed(*dtype) && (*dtype != DType::U32x4 || allowed(DType::U32))
        };
        let choose = |types: &[DType]| types.iter().copied().filter(fits).collect();
        TypeChoice {
            all: choose(&TYPES),
            numbers: choose(&NUMBERS),
            integers: choose(&INTEGERS),
            embedded: choose(&[DType::I32, DType::I64]),
        }
    }

    /// Whether routines may have random bits.
    pub(super) fn has_random_bits(&self) -> bool {
        self.all.contains(&DType::U32x4)
    }

    /// Types whose bits may be reinterpreted as this type.
    pub(super) fn castable_to(&self, dtype: DType) -> Vec<DType> {
        let fits = |from: &DType| {
            from.size_bytes() == dtype.size_bytes() && (dtype != DType::Bool || *from == DType::Bool)
        };
        self.numbers.iter().copied().filter(fits).collect()
    }
}
