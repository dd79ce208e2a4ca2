//! A number and the radius around it that contains the device's number, through every operation of the IR.
//!
//! An operation is evaluated at the numbers and at the ends of the operands' radii, in all combinations.
//! Operations are monotone in each operand (exceptions are treated separately), so the device's result,
//! before its own error, lies between the results. Where the results differ in something that is no distance
//! (an integer, infinity, NaN), the result has no bound.

use std::fmt;

use lowered_ir::eval;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::{Closeness, promises};

/// A number, and the radius around it that contains the device's number; infinite if there is no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Approx {
    pub(crate) value: Scalar,
    pub(crate) radius: f64,
}

impl Approx {
    /// A number that every device computes exactly.
    pub(crate) fn exact(value: Scalar) -> Approx {
        Approx { value, radius: 0.0 }
    }

    /// The number without a bound.
    pub(crate) fn open(self) -> Approx {
        Approx { radius: f64::INFINITY, ..self }
    }

    pub(crate) fn is_open(self) -> bool {
        self.radius == f64::INFINITY
    }

    /// How close `found` is; `None` if it is outside the radius.
    pub(crate) fn distance(self, found: Scalar) -> Option<Closeness> {
        let same = found == self.value || is_nan(found) && is_nan(self.value);
        let counted = Closeness { elements: 1, equal: usize::from(same), ..Closeness::default() };
        if self.is_open() {
            return Some(Closeness { open: 1, ..Closeness::default() });
        }
        if same {
            return Some(counted);
        }
        let dtype = self.value.dtype();
        if !dtype.is_float() || is_nan(found) || is_nan(self.value) {
            return None;
        }
        let (a, b) = (at_most_one_beyond(found), at_most_one_beyond(self.value));
        let beyond = found.as_f64().is_infinite() || self.value.as_f64().is_infinite();
        let rounding = if beyond { promises::last_place(greatest(dtype), dtype) } else { 0.0 };
        let (off, allowed) = ((a - b).abs(), self.radius + rounding);
        // Zeros of either sign are equal, whatever the radius.
        let worst = if off == 0.0 { 0.0 } else { off / allowed };
        (off <= allowed).then_some(Closeness { worst, ..counted })
    }

    /// The number, and the ends of its radius.
    fn candidates(self) -> Vec<Scalar> {
        if self.radius == 0.0 {
            return vec![self.value];
        }
        let (dtype, x) = (self.value.dtype(), self.value.as_f64());
        let end = |x| Scalar::from_f64(dtype, x);
        vec![self.value, end(x - self.radius), end(x + self.radius)]
    }

    /// The number as an operand of arithmetic, which may flush subnormals to zero.
    fn operand(self) -> Approx {
        Approx { radius: self.radius.max(promises::flushed(self.value)), ..self }
    }

    /// Whether the number compares equal to zero and the device's number may not, or the other way round.
    fn zero_in_doubt(self) -> bool {
        self.radius > 0.0 && self.value.as_f64().abs() <= self.radius
    }
}

impl fmt::Display for Approx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} within {:e}", self.value, self.radius)
    }
}

/// `op x`.
pub(super) fn unary(op: UnaryOp, x: Approx) -> Approx {
    let x = x.operand();
    let result = eval::unary(op, x.value);
    let own = promises::unary(op, result);
    match op {
        // These functions are not monotone, but change no faster than their operand, and by at most 2.
        UnaryOp::Sin | UnaryOp::Cos
            if result.as_f64().is_finite() && result.dtype().is_float() && !x.is_open() =>
        {
            settled(result, x.radius.min(2.0), own)
        }
        UnaryOp::Recip | UnaryOp::RecipSqrt | UnaryOp::Log | UnaryOp::Log2 | UnaryOp::Not
            if x.zero_in_doubt() =>
        {
            Approx::exact(result).open()
        }
        _ => spread(&[x], |x| eval::unary(op, x[0]), own),
    }
}

/// `a op b`.
pub(super) fn binary(op: BinaryOp, a: Approx, b: Approx) -> Approx {
    match op {
        BinaryOp::Arg1 => return a,
        BinaryOp::Arg2 => return b,
        _ => {}
    }
    let (a, b) = (a.operand(), b.operand());
    let result = eval::binary(op, a.value, b.value);
    let apart = (a.value.as_f64() - b.value.as_f64()).abs() > a.radius + b.radius;
    let in_doubt = match op {
        BinaryOp::Div | BinaryOp::Rem => b.zero_in_doubt(),
        BinaryOp::Pow | BinaryOp::And | BinaryOp::Or => a.zero_in_doubt() || b.zero_in_doubt(),
        BinaryOp::Eq | BinaryOp::Ne => a.radius + b.radius > 0.0 && !apart,
        // Shaders may be compiled as if there were no infinities: `x - y + y` as `x`.
        BinaryOp::Add | BinaryOp::Sub => is_nan(result) && !is_nan(a.value) && !is_nan(b.value),
        _ => false,
    };
    // These operations jump: they subtract whole multiples, or their sign depends on whether the exponent is
    // odd.
    let jumps = match op {
        BinaryOp::Rem => a.radius + b.radius > 0.0 && quotients_differ(a, b),
        BinaryOp::Pow => a.value.as_f64() < 0.0 && b.radius > 0.0,
        _ => false,
    };
    if in_doubt || jumps {
        return Approx::exact(result).open();
    }
    let own = promises::binary(op, a.value, b.value, result);
    spread(&[a, b], |x| eval::binary(op, x[0], x[1]), own)
}

/// Whether the whole part of the quotient depends on the operands' positions within their radii.
fn quotients_differ(a: Approx, b: Approx) -> bool {
    let whole = |(a, b): (Scalar, Scalar)| (a.as_f64() / b.as_f64()).trunc();
    let pairs = a.candidates().into_iter().flat_map(|a| b.candidates().into_iter().map(move |b| (a, b)));
    let quotients: Vec<f64> = pairs.map(whole).collect();
    quotients.iter().any(|q| q.to_bits() != quotients[0].to_bits())
}

/// `op(a, b, c)`.
pub(super) fn ternary(op: TernaryOp, a: Approx, b: Approx, c: Approx) -> Approx {
    if op == TernaryOp::Where {
        return select(a, b, c);
    }
    let (a, b, c) = (a.operand(), b.operand(), c.operand());
    let result = eval::ternary(op, a.value, b.value, c.value);
    let factors = [a, b, c];
    if op == TernaryOp::Mul3 && factors.iter().any(|a| factors.iter().any(|b| vanishes(*a, *b))) {
        return Approx::exact(result).open();
    }
    let own = promises::ternary(op, a.value, b.value, c.value, result);
    spread(&[a, b, c], |x| eval::ternary(op, x[0], x[1], x[2]), own)
}

/// One of two numbers; a number that covers both if the condition is uncertain.
fn select(condition: Approx, then: Approx, otherwise: Approx) -> Approx {
    let (chosen, other) = if condition.value.as_bool() { (then, otherwise) } else { (otherwise, then) };
    if condition.radius == 0.0 {
        return chosen;
    }
    let alike = chosen.value == other.value;
    let apart = (chosen.value.as_f64() - other.value.as_f64()).abs();
    match chosen.value.dtype().is_float() && apart.is_finite() {
        true => Approx { radius: chosen.radius.max(apart + other.radius), ..chosen },
        false if alike => Approx { radius: chosen.radius.max(other.radius), ..chosen },
        false => chosen.open(),
    }
}

/// The value in another type.
pub(super) fn convert(to: DType, x: Approx) -> Approx {
    if x.value.dtype() == to {
        return x;
    }
    let x = x.operand();
    let result = x.value.convert(to);
    if to == DType::Bool && x.zero_in_doubt() {
        return Approx::exact(result).open();
    }
    spread(&[x], |x| x[0].convert(to), promises::convert(x.value, result))
}

/// Whether the product of `a`, which is 0, with `b` is NaN. A compiler that finds a zero factor may make the
/// product 0: WGSL lets it assume that infinities and NaNs do not occur.
pub(super) fn vanishes(a: Approx, b: Approx) -> bool {
    a.value.dtype().is_float() && a.value.as_f64() == 0.0 && !b.value.as_f64().is_finite()
}

/// The bits of a computed number in another type. The bits of a zero are uncertain even if its value is not,
/// because the sign is.
pub(super) fn bitcast_computed(to: DType, x: Approx) -> Approx {
    let result = of_bits(&[x], |x| eval::bitcast(to, x[0]));
    let is_signless = x.value.dtype().is_float() && x.value.as_f64() == 0.0 && to != x.value.dtype();
    if is_signless { result.open() } else { result }
}

/// Reinterpreted or moved bits; uncertain if the number is.
pub(super) fn of_bits(parts: &[Approx], f: impl Fn(&[Scalar]) -> Scalar) -> Approx {
    let values: Vec<Scalar> = parts.iter().map(|part| part.value).collect();
    let result = Approx::exact(f(&values));
    if parts.iter().any(|part| part.radius > 0.0) { result.open() } else { result }
}

/// Evaluates an operation on numbers with radii, and adds the error bound of the operation itself.
fn spread(operands: &[Approx], f: impl Fn(&[Scalar]) -> Scalar, own: f64) -> Approx {
    let values: Vec<Scalar> = operands.iter().map(|x| x.value).collect();
    let result = f(&values);
    if operands.iter().any(|x| x.is_open()) {
        return Approx::exact(result).open();
    }
    let mut combinations = vec![Vec::new()];
    for operand in operands {
        let longer = |chosen: &Vec<Scalar>| -> Vec<Vec<Scalar>> {
            operand.candidates().into_iter().map(|next| [chosen.as_slice(), &[next]].concat()).collect()
        };
        combinations = combinations.iter().flat_map(longer).collect();
    }
    let offs = combinations.iter().map(|chosen| off(result, f(chosen)));
    settled(result, offs.fold(0.0, f64::max), own)
}

/// The distance of two results; infinite if it is not defined.
fn off(a: Scalar, b: Scalar) -> f64 {
    let apart = (a.as_f64() - b.as_f64()).abs();
    match a.dtype().is_float() && apart.is_finite() {
        true => apart,
        false if a == b || is_nan(a) && is_nan(b) => 0.0,
        false => f64::INFINITY,
    }
}

/// A result with a radius: the spread of the operands, the operation's own error, and the error of flushing
/// to zero.
fn settled(value: Scalar, spread: f64, own: f64) -> Approx {
    Approx { value, radius: spread + own + promises::flushed(value) }
}

fn is_nan(x: Scalar) -> bool {
    x.dtype().is_float() && x.as_f64().is_nan()
}

/// The greatest finite number of a float type.
pub(super) fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f32::MAX.into(),
        DType::Bf16 => 2f64.powi(128) - 2f64.powi(120),
        DType::F16 => 65_504.0,
        DType::Fp8E5m2 => 57_344.0,
        DType::Fp8E4m3fn => 448.0,
        DType::Bool
        | DType::U8
        | DType::I8
        | DType::U16
        | DType::I32
        | DType::U32
        | DType::I64
        | DType::U64
        | DType::U32x4 => 0.0,
    }
}

/// The number; for infinity, the successor of the greatest finite number.
fn at_most_one_beyond(x: Scalar) -> f64 {
    let value = x.as_f64();
    // For `f64` this rounds to infinity: infinities must be equal there.
    let next = greatest(x.dtype()) + promises::last_place(greatest(x.dtype()), x.dtype());
    if value.is_infinite() { next.copysign(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32(x: f32) -> Scalar {
        Scalar::from_f64(DType::F32, x.into())
    }

    fn about(x: f32, radius: f64) -> Approx {
        Approx { value: f32(x), radius }
    }

    #[test]
    fn radii_grow_with_what_is_computed() {
        let sum = binary(BinaryOp::Add, about(1.0, 0.25), about(-1.0, 0.5));
        assert_eq!((sum.value, sum.radius), (f32(0.0), 0.75));
        let product = binary(BinaryOp::Mul, about(3.0, 0.5), about(4.0, 0.25));
        assert_eq!(product.radius, 3.5 * 4.25 - 12.0);
        let e = unary(UnaryOp::Exp, about(10.0, 0.125));
        assert!(e.radius > 22026.0 * 0.125 && e.radius < 22026.0 * 0.14, "{e}");
        assert_eq!(
            unary(UnaryOp::Sin, about(1e10, 100.0)).radius,
            2.0 + promises::unary(UnaryOp::Sin, unary(UnaryOp::Sin, about(1e10, 0.0)).value)
        );
    }

    #[test]
    fn what_may_jump_is_open() {
        assert!(convert(DType::I32, about(2.0, 0.25)).is_open());
        assert_eq!(convert(DType::I32, about(2.5, 0.25)), Approx::exact(Scalar::from_i64(DType::I32, 2)));
        assert!(binary(BinaryOp::Lt, about(1.0, 0.5), about(1.25, 0.0)).is_open());
        assert_eq!(binary(BinaryOp::Lt, about(1.0, 0.5), about(2.25, 0.0)).radius, 0.0);
        assert!(binary(BinaryOp::Div, about(1.0, 0.0), about(0.25, 0.5)).is_open());
        assert!(binary(BinaryOp::Eq, about(1.0, 0.5), about(1.25, 0.0)).is_open());
        assert!(unary(UnaryOp::Log, about(0.25, 0.5)).is_open());
    }

    #[test]
    fn zeros_in_doubt_are_those_compilers_make_something_of() {
        let zero = Approx::exact(f32(0.0));
        assert!(bitcast_computed(DType::U32, zero).is_open());
        assert!(!bitcast_computed(DType::U32, Approx::exact(f32(1.0))).is_open());
        let infinite = Approx::exact(f32(f32::INFINITY));
        assert!(vanishes(zero, infinite) && !vanishes(infinite, zero) && !vanishes(zero, zero));
        assert!(ternary(TernaryOp::Mul3, infinite, about(1.0, 0.0), zero).is_open());
    }

    #[test]
    fn a_condition_in_doubt_gives_either() {
        let doubt = Approx::exact(Scalar::from_i64(DType::Bool, 1)).open();
        let either = ternary(TernaryOp::Where, doubt, about(1.0, 0.0), about(3.0, 0.25));
        assert_eq!((either.value, either.radius), (f32(1.0), 2.25));
        let int = |x| Approx::exact(Scalar::from_i64(DType::I32, x));
        assert!(ternary(TernaryOp::Where, doubt, int(1), int(2)).is_open());
        assert_eq!(ternary(TernaryOp::Where, doubt, int(2), int(2)), int(2));
    }

    #[test]
    fn distances_count_and_reject() {
        let bits = Approx::exact(f32(1.0));
        assert_eq!(bits.distance(f32(1.0)).map(|c| (c.equal, c.worst)), Some((1, 0.0)));
        assert_eq!(bits.distance(f32(1.0000001)), None);
        assert_eq!(about(1.0, 0.5).distance(f32(1.25)).map(|c| (c.equal, c.worst)), Some((0, 0.5)));
        assert_eq!(about(1.0, 0.5).distance(f32(f32::NAN)), None);
        assert!(Approx::exact(f32(0.0)).distance(f32(-0.0)).is_some());
        assert_eq!(about(1.0, 0.0).open().distance(f32(7.0)).map(|c| c.open), Some(1));
        let int = |x| Scalar::from_i64(DType::I32, x);
        assert_eq!(Approx::exact(int(3)).distance(int(4)), None);
    }

    #[test]
    fn infinity_is_next_to_the_greatest_number() {
        assert!(Approx::exact(f32(f32::INFINITY)).distance(f32(f32::MAX)).is_some());
        assert!(Approx::exact(f32(f32::INFINITY)).distance(f32(1e38)).is_none());
        assert!(Approx::exact(f32(f32::INFINITY)).distance(f32(-f32::MAX)).is_none());
        assert!(Approx::exact(f32(1.0)).distance(f32(f32::INFINITY)).is_none());
    }
}
