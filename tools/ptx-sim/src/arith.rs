//! Arithmetic on register contents.
//!
//! Every function takes registers as 64-bit words, uses the low bits that the type has, and returns a word
//! whose other bits are zero. `None` means that the operation does not exist for the type.
//!
//! Approximate functions are computed in `f64` and rounded to `f32`. The hardware's results differ, within
//! the errors that [`PtxUnaryOp`] and [`PtxBinaryOp`] state, so no test may compare their bits. Where PTX
//! defines a result exactly (zeros, infinities, subnormals), the result is exact.

use super::float::{self, FloatFormat, RoundingDirection};
use ptx_asm::StateSpace;
use ptx_asm::{AtomicOp, CmpOp, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, Ty};

/// Width of a type in bits; 1 for predicates.
pub(super) fn width(ty: Ty) -> u32 {
    match ty {
        Ty::B8 | Ty::U8 | Ty::S8 => 8,
        _ => ty.class().bits(),
    }
}

/// Keeps the low `width` bits of a value and clears the others.
pub(super) fn truncate(value: u64, width: u32) -> u64 {
    if width >= 64 { value } else { value & ((1 << width) - 1) }
}

/// The low `width` bits as a signed number.
pub(super) fn signed(value: u64, width: u32) -> i64 {
    let free = 64 - width;
    ((value << free) as i64) >> free
}

/// A register content as a number of an integer type.
fn integer(ty: Ty, value: u64) -> i128 {
    if ty.is_signed() { i128::from(signed(value, width(ty))) } else { i128::from(truncate(value, width(ty))) }
}

/// Whether integer arithmetic exists for a type: bits or integers of at least 16 bits.
fn is_integer(ty: Ty) -> bool {
    !ty.is_float() && width(ty) >= 16
}

/// The encoding of an `f32` result, with the default NaN.
fn from_f32(value: f32) -> u64 {
    if value.is_nan() { float::F32.nan() } else { u64::from(value.to_bits()) }
}

/// Whether a register of a float type holds NaN.
fn is_nan(ty: Ty, bits: u64) -> bool {
    FloatFormat::of(ty).is_some_and(|format| format.decode(bits).is_nan())
}

fn from_f64(value: f64) -> u64 {
    if value.is_nan() { float::F64.nan() } else { value.to_bits() }
}

fn to_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Applies an operation to both 16-bit halves.
fn halves(operation: impl Fn(u32) -> Option<u64>) -> Option<u64> {
    Some(operation(0)? | operation(16)? << 16)
}

/// The 16-bit half at bit `at`.
fn half(value: u64, at: u32) -> u64 {
    truncate(value >> at, 16)
}

/// The type of the halves of a pair type.
fn half_type(ty: Ty) -> Ty {
    if ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 }
}

/// Evaluates an operation on one operand.
pub(super) fn unary(op: PtxUnaryOp, ty: Ty, a: u64) -> Option<u64> {
    if FloatFormat::of_pair(ty).is_some() {
        return halves(|at| unary(op, half_type(ty), half(a, at)));
    }
    let bits = width(ty);
    let a = truncate(a, bits);
    let sign = 1_u64 << (bits - 1);
    Some(match op {
        // PTX leaves the NaN of `neg` and `abs` unspecified.
        PtxUnaryOp::Neg | PtxUnaryOp::Abs if is_nan(ty, a) => FloatFormat::of(ty)?.nan(),
        PtxUnaryOp::Neg if ty.is_float() => a ^ sign,
        PtxUnaryOp::Abs if ty.is_float() => a & !sign,
        PtxUnaryOp::Neg if ty.is_signed() && bits >= 16 => truncate(a.wrapping_neg(), bits),
        PtxUnaryOp::Abs if ty.is_signed() && bits >= 16 => truncate(signed(a, bits).unsigned_abs(), bits),
        PtxUnaryOp::Not if !ty.is_float() => truncate(!a, bits),
        PtxUnaryOp::CountOnes if bits >= 32 && !ty.is_float() => u64::from(a.count_ones()),
        PtxUnaryOp::LeadingZeros if bits >= 32 && !ty.is_float() => {
            u64::from(a.leading_zeros() - (64 - bits))
        }
        PtxUnaryOp::Reverse if bits >= 32 && !ty.is_float() => a.reverse_bits() >> (64 - bits),
        PtxUnaryOp::Sqrt if ty == Ty::F32 => from_f32(to_f32(a).sqrt()),
        PtxUnaryOp::Sqrt if ty == Ty::F64 => from_f64(f64::from_bits(a).sqrt()),
        PtxUnaryOp::Recip if ty == Ty::F32 => from_f32(1.0 / to_f32(a)),
        PtxUnaryOp::Recip if ty == Ty::F64 => from_f64(1.0 / f64::from_bits(a)),
        _ if ty == Ty::F32 => approximation(op, to_f32(a))?,
        _ => return None,
    })
}

/// Evaluates an approximate function on `f32`.
fn approximation(op: PtxUnaryOp, x: f32) -> Option<u64> {
    if op == PtxUnaryOp::TanhApprox {
        return Some(from_f32(f64::from(x).tanh() as f32)); // the only approximation that keeps subnormals
    }
    let x = f64::from(flush(x));
    let y = match op {
        PtxUnaryOp::Exp2Approx => x.exp2(),
        PtxUnaryOp::Log2Approx => x.log2(),
        PtxUnaryOp::SinApprox => x.sin(),
        PtxUnaryOp::CosApprox => x.cos(),
        PtxUnaryOp::RsqrtApprox => 1.0 / x.sqrt(),
        PtxUnaryOp::RecipApprox => 1.0 / x,
        PtxUnaryOp::SqrtApprox => x.sqrt(),
        _ => return None,
    };
    Some(from_f32(flush(y as f32)))
}

/// Flushes a subnormal number to zero with its sign.
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

/// Evaluates an operation on two operands.
pub(super) fn binary(op: PtxBinaryOp, ty: Ty, a: u64, b: u64) -> Option<u64> {
    match ty {
        Ty::F32 => binary_f32(op, to_f32(a), to_f32(b)),
        Ty::F64 => binary_f64(op, f64::from_bits(a), f64::from_bits(b)),
        Ty::F16 => binary_f16(op, float::F16, a, b),
        Ty::Bf16 => binary_f16(op, float::BF16, a, b),
        Ty::F16x2 | Ty::Bf16x2 => halves(|at| binary(op, half_type(ty), half(a, at), half(b, at))),
        _ => binary_bits(op, ty, a, b),
    }
}

fn binary_f32(op: PtxBinaryOp, a: f32, b: f32) -> Option<u64> {
    Some(from_f32(match op {
        PtxBinaryOp::Add => a + b,
        PtxBinaryOp::Sub => a - b,
        PtxBinaryOp::Mul => a * b,
        PtxBinaryOp::Div => a / b,
        PtxBinaryOp::DivApprox => divide_approximately(a, b),
        // `f64` represents every `f32`, so nothing is rounded.
        PtxBinaryOp::Min => min(f64::from(a), f64::from(b)) as f32,
        PtxBinaryOp::Max => max(f64::from(a), f64::from(b)) as f32,
        _ => return None,
    }))
}

/// Approximate division. If the divisor's reciprocal is subnormal, PTX defines the quotient: 0, or NaN for an
/// infinite `a`.
fn divide_approximately(a: f32, b: f32) -> f32 {
    let (a, b) = (flush(a), flush(b));
    if b.abs() > 2_f32.powi(126) && b.is_finite() {
        let zero = 0.0_f32.copysign(a) * 1.0_f32.copysign(b);
        return if a.is_finite() { zero } else { f32::NAN };
    }
    flush((f64::from(a) / f64::from(b)) as f32)
}

fn binary_f64(op: PtxBinaryOp, a: f64, b: f64) -> Option<u64> {
    Some(from_f64(match op {
        PtxBinaryOp::Add => a + b,
        PtxBinaryOp::Sub => a - b,
        PtxBinaryOp::Mul => a * b,
        PtxBinaryOp::Div => a / b,
        PtxBinaryOp::Min => min(a, b),
        PtxBinaryOp::Max => max(a, b),
        _ => return None,
    }))
}

fn binary_f16(op: PtxBinaryOp, format: FloatFormat, a: u64, b: u64) -> Option<u64> {
    let (a, b) = (format.decode(truncate(a, 16)), format.decode(truncate(b, 16)));
    let exact = match op {
        PtxBinaryOp::Add => float::add_odd(a, b),
        PtxBinaryOp::Sub => float::add_odd(a, -b),
        PtxBinaryOp::Mul => a * b, // 22 bits at most: exact
        PtxBinaryOp::Min => min(a, b),
        PtxBinaryOp::Max => max(a, b),
        _ => return None,
    };
    Some(format.encode(exact, RoundingDirection::Nearest))
}

/// The minimum: a number rather than NaN, and -0 rather than +0.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || a == b && b.is_sign_negative() { b } else { a }
}

/// The maximum: a number rather than NaN, and +0 rather than -0.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b > a || a == b && b.is_sign_positive() { b } else { a }
}

fn binary_bits(op: PtxBinaryOp, ty: Ty, a: u64, b: u64) -> Option<u64> {
    let bits = width(ty);
    match op {
        PtxBinaryOp::And => return Some(truncate(a & b, bits)),
        PtxBinaryOp::Or => return Some(truncate(a | b, bits)),
        PtxBinaryOp::Xor => return Some(truncate(a ^ b, bits)),
        _ if !is_integer(ty) => return None,
        _ => {}
    }
    let (x, y) = (integer(ty, a), integer(ty, b));
    Some(match op {
        PtxBinaryOp::Add => truncate(a.wrapping_add(b), bits),
        PtxBinaryOp::Sub => truncate(a.wrapping_sub(b), bits),
        PtxBinaryOp::Mul => truncate(a.wrapping_mul(b), bits),
        // A product of two 64-bit numbers fits 128 bits. Unsigned products need the top bit, which an
        // arithmetic shift would replicate.
        PtxBinaryOp::MulHigh if ty.is_signed() => truncate(((x * y) >> bits) as u64, bits),
        PtxBinaryOp::MulHigh => truncate(((x as u128 * y as u128) >> bits) as u64, bits),
        PtxBinaryOp::MulWide if bits <= 32 => truncate((x * y) as u64, 2 * bits),
        PtxBinaryOp::Div | PtxBinaryOp::Rem if y == 0 => truncate(nonsense(a), bits),
        PtxBinaryOp::Div => truncate((x / y) as u64, bits),
        PtxBinaryOp::Rem => truncate((x % y) as u64, bits),
        PtxBinaryOp::Min => truncate(x.min(y) as u64, bits),
        PtxBinaryOp::Max => truncate(x.max(y) as u64, bits),
        PtxBinaryOp::ShiftLeft => shift(b, bits, 0, |by| truncate(a << by, bits)),
        PtxBinaryOp::ShiftRight if ty.is_signed() => {
            truncate((signed(a, bits) >> truncate(b, 32).min(u64::from(bits - 1))) as u64, bits)
        }
        PtxBinaryOp::ShiftRight => shift(b, bits, 0, |by| truncate(a, bits) >> by),
        _ => return None,
    })
}

/// A shift by the low 32 bits of `by`, or `gone` for shifts by the width or more.
fn shift(by: u64, width: u32, gone: u64, within: impl Fn(u32) -> u64) -> u64 {
    let by = by as u32;
    if by >= width { gone } else { within(by) }
}

/// A result on which no program may depend. It differs from the results of the hardware and of the host, so a
/// test that depends on it fails.
fn nonsense(a: u64) -> u64 {
    a ^ 0x9e37_79b9_7f4a_7c15
}

/// Evaluates an operation on three operands.
pub(super) fn ternary(op: PtxTernaryOp, ty: Ty, a: u64, b: u64, c: u64) -> Option<u64> {
    match op {
        PtxTernaryOp::Fma => fma(ty, a, b, c),
        PtxTernaryOp::MulAdd if is_integer(ty) => {
            Some(truncate(a.wrapping_mul(b).wrapping_add(c), width(ty)))
        }
        PtxTernaryOp::MulAddWide if matches!(ty, Ty::U32 | Ty::S32) => {
            Some(binary_bits(PtxBinaryOp::MulWide, ty, a, b)?.wrapping_add(c))
        }
        _ => None,
    }
}

fn fma(ty: Ty, a: u64, b: u64, c: u64) -> Option<u64> {
    let small = |format: FloatFormat| {
        float::fma(
            format,
            format.decode(truncate(a, 16)),
            format.decode(truncate(b, 16)),
            format.decode(truncate(c, 16)),
        )
    };
    match ty {
        Ty::F32 => Some(from_f32(to_f32(a).mul_add(to_f32(b), to_f32(c)))),
        Ty::F64 => Some(from_f64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))),
        Ty::F16 => Some(small(float::F16)),
        Ty::Bf16 => Some(small(float::BF16)),
        Ty::F16x2 | Ty::Bf16x2 => halves(|at| fma(half_type(ty), half(a, at), half(b, at), half(c, at))),
        _ => None,
    }
}

/// Evaluates a comparison.
pub(super) fn compare(cmp: CmpOp, ty: Ty, a: u64, b: u64) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match FloatFormat::of(ty) {
        Some(format) => {
            let bits = width(ty);
            format.decode(truncate(a, bits)).partial_cmp(&format.decode(truncate(b, bits)))
        }
        None if is_integer(ty) => Some(integer(ty, a).cmp(&integer(ty, b))),
        None => return None,
    };
    Some(match cmp {
        CmpOp::Eq => order == Some(Equal),
        CmpOp::Ne => matches!(order, Some(Less | Greater)),
        CmpOp::Lt => order == Some(Less),
        CmpOp::Le => matches!(order, Some(Less | Equal)),
        CmpOp::Gt => order == Some(Greater),
        CmpOp::Ge => matches!(order, Some(Greater | Equal)),
        _ if !ty.is_float() => return None,
        CmpOp::NeOrNan => order != Some(Equal),
        CmpOp::LtOrNan => matches!(order, None | Some(Less)),
        CmpOp::LeOrNan => order != Some(Greater),
        CmpOp::GtOrNan => matches!(order, None | Some(Greater)),
        CmpOp::GeOrNan => order != Some(Less),
        CmpOp::IsNan => order.is_none(),
    })
}

/// The value that an atomic operation stores in place of `old`. `f32` addition in global memory flushes
/// subnormals.
pub(super) fn atomic(op: AtomicOp, ty: Ty, space: StateSpace, old: u64, operands: &[u64]) -> Option<u64> {
    let &b = operands.first()?;
    if width(ty) < 32 || (operands.len() == 2) != (op == AtomicOp::CompareSwap) {
        return None;
    }
    match op {
        AtomicOp::Add if ty == Ty::F32 && space == StateSpace::Global => {
            Some(from_f32(flush(flush(to_f32(old)) + flush(to_f32(b)))))
        }
        AtomicOp::Add => binary(PtxBinaryOp::Add, ty, old, b),
        AtomicOp::Min if !ty.is_float() => binary(PtxBinaryOp::Min, ty, old, b),
        AtomicOp::Max if !ty.is_float() => binary(PtxBinaryOp::Max, ty, old, b),
        AtomicOp::And => binary_bits(PtxBinaryOp::And, ty, old, b),
        AtomicOp::Or => binary_bits(PtxBinaryOp::Or, ty, old, b),
        AtomicOp::Xor => binary_bits(PtxBinaryOp::Xor, ty, old, b),
        AtomicOp::Exchange => Some(truncate(b, width(ty))),
        AtomicOp::CompareSwap => {
            let &replacement = operands.get(1)?;
            let equal = truncate(old, width(ty)) == truncate(b, width(ty));
            Some(truncate(if equal { replacement } else { old }, width(ty)))
        }
        _ => None,
    }
}
