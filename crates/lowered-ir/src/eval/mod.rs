//! The result of every operation: the single definition that the interpreter and constant folding run and
//! that generated code must reproduce.
//!
//! The functions are total: they never panic, whatever the types of their operands. For combinations that the
//! verifier rejects, the right operands are converted to the type of the left one.
//!
//! # How each type computes
//!
//! * `f32`, `f64`: IEEE 754, round to nearest even, subnormals kept. **Which NaN** an arithmetic operation
//!   yields is not part of the semantics: here it is always the positive quiet one without payload, in
//!   generated code it is the NaN that the machine gives. A test that compares the two treats all NaNs as
//!   equal. Operations that only select or flip the sign (`max`, `min`, `where`, `relu`, the gates, `neg`,
//!   `abs`) keep the bits of what they select.
//! * `f16`, `bf16` and the 8-bit floats: the operands are converted to `f32`, the operation is done there,
//!   its result is converted back. `where` is the exception: it picks one of its operands unchanged.
//! * Integers wrap. Transcendental functions, `sqrt` and `recip_sqrt` go through `f64` and back
//!   ([`Scalar::convert`]: truncating, saturating, NaN to 0).
//! * `bool` computes as the integers 0 and 1, and any result but 0 is `true`.
//! * `u32x4` is the type of the generators of random bits ([`crate::random`]). In all other operations it
//!   counts as the `u32` in its first lane, as in conversions.

mod float;
mod integer;

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, TernaryOp, UnaryOp};
use crate::random::{Generator, bits_of, words_of};
use float::NativeFloat;
use integer::NativeInteger;

/// `op x`; the result has the operand's type.
pub fn unary(op: UnaryOp, x: Scalar) -> Scalar {
    let dtype = x.dtype();
    match dtype {
        DType::F32 => float::unary(op, f32::load(x)).store(),
        DType::F64 => float::unary(op, f64::load(x)).store(),
        DType::I32 => integer::unary(op, i32::load(x)).store(),
        DType::I64 => integer::unary(op, i64::load(x)).store(),
        DType::U8 => integer::unary(op, u8::load(x)).store(),
        DType::I8 => integer::unary(op, i8::load(x)).store(),
        DType::U16 => integer::unary(op, u16::load(x)).store(),
        DType::U32 => integer::unary(op, u32::load(x)).store(),
        DType::U64 => integer::unary(op, u64::load(x)).store(),
        _ => unary(op, x.convert(computes_in(dtype))).convert(dtype),
    }
}

/// `a op b`; the result has the type of `a`, or is `bool` for comparisons.
pub fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    let dtype = a.dtype();
    let b = b.convert(dtype);
    match (op, Generator::of(op)) {
        (BinaryOp::Arg1, _) => return a,
        (BinaryOp::Arg2, _) => return b,
        (_, Some(generator)) if dtype == DType::U32x4 => {
            let words = generator.words(words_of(a.bits()), words_of(b.bits()));
            return Scalar::new(dtype, bits_of(words));
        }
        _ => {}
    }
    match dtype {
        DType::F32 => on_floats::<f32>(op, a, b),
        DType::F64 => on_floats::<f64>(op, a, b),
        DType::I32 => on_integers::<i32>(op, a, b),
        DType::I64 => on_integers::<i64>(op, a, b),
        DType::U8 => on_integers::<u8>(op, a, b),
        DType::I8 => on_integers::<i8>(op, a, b),
        DType::U16 => on_integers::<u16>(op, a, b),
        DType::U32 => on_integers::<u32>(op, a, b),
        DType::U64 => on_integers::<u64>(op, a, b),
        _ => {
            let wide = computes_in(dtype);
            binary(op, a.convert(wide), b.convert(wide)).convert(op.result(dtype))
        }
    }
}

/// `op(a, b, c)`; the result has the type of `b` for `where` and of `a` for the others.
pub fn ternary(op: TernaryOp, a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    match op {
        TernaryOp::Where if a.as_bool() => b,
        TernaryOp::Where => c.convert(b.dtype()),
        TernaryOp::Fma => fma(a, b.convert(a.dtype()), c.convert(a.dtype())),
        TernaryOp::Mul3 => mul3(a, b.convert(a.dtype()), c.convert(a.dtype())),
    }
}

/// One lane of a `u32x4`; lanes are counted modulo 4.
pub fn lane(lane: u8, x: Scalar) -> Scalar {
    let words = words_of(x.convert(DType::U32x4).bits());
    Scalar::new(DType::U32, words[usize::from(lane % 4)].into())
}

/// The `u32x4` of four words.
pub fn lanes(words: [Scalar; 4]) -> Scalar {
    Scalar::new(DType::U32x4, bits_of(words.map(|word| word.convert(DType::U32).bits() as u32)))
}

/// The operand's bits as another type; bits that `to` has no room for are dropped.
pub fn bitcast(to: DType, x: Scalar) -> Scalar {
    Scalar::new(to, x.bits())
}

/// The type in which operations on `dtype` are computed: `dtype` itself if it has arithmetic of its own.
pub fn computes_in(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 | DType::Fp8E5m2 | DType::Fp8E4m3fn => DType::F32,
        DType::Bool => DType::U8,
        DType::U32x4 => DType::U32,
        other => other,
    }
}

fn fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    let dtype = a.dtype();
    match dtype {
        DType::F32 => f32::load(a).fma(f32::load(b), f32::load(c)).canonical().store(),
        DType::F64 => f64::load(a).fma(f64::load(b), f64::load(c)).canonical().store(),
        _ if dtype.is_integer() => binary(BinaryOp::Add, binary(BinaryOp::Mul, a, b), c),
        _ => {
            let wide = computes_in(dtype);
            fma(a.convert(wide), b.convert(wide), c.convert(wide)).convert(dtype)
        }
    }
}

fn mul3(a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    let (dtype, wide) = (a.dtype(), computes_in(a.dtype()));
    let [a, b, c] = [a, b, c].map(|x| x.convert(wide));
    binary(BinaryOp::Mul, binary(BinaryOp::Mul, a, b), c).convert(dtype)
}

fn on_floats<T: NativeFloat>(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    let (a, b) = (T::load(a), T::load(b));
    match compare(op, &a, &b) {
        Some(truth) => truth_value(truth),
        None => float::binary(op, a, b).store(),
    }
}

fn on_integers<T: NativeInteger>(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    let (a, b) = (T::load(a), T::load(b));
    match compare(op, &a, &b) {
        Some(truth) => truth_value(truth),
        None => integer::binary(op, a, b).store(),
    }
}

fn compare<T: PartialOrd>(op: BinaryOp, a: &T, b: &T) -> Option<bool> {
    match op {
        BinaryOp::Lt => Some(a < b),
        BinaryOp::Le => Some(a <= b),
        BinaryOp::Eq => Some(a == b),
        BinaryOp::Ne => Some(a != b),
        _ => None,
    }
}

fn truth_value(truth: bool) -> Scalar {
    Scalar::new(DType::Bool, u128::from(truth))
}

#[cfg(test)]
mod tests;
