//! Integer powers, by squaring once per bit of the exponent.

use lowered_ir::ir::{BinaryOp, Expr};
use tnode::DType;

use super::legalizer::{Legalizer, constant};

impl Legalizer<'_> {
    /// `base` to the power of `exponent`, both of the narrow type `dtype`, computed in `wide`. The power
    /// wraps. A negative exponent gives `1 / baseⁿ`, truncated.
    pub(crate) fn integer_pow(&mut self, dtype: DType, wide: DType, base: Expr, exponent: Expr) -> Expr {
        let (base, exponent) = (self.shared(base, wide), self.shared(exponent, wide));
        let bits = 8 * dtype.size_bytes() as i64 - i64::from(dtype.is_signed());
        let mut square = base.clone();
        let mut power = constant(wide, 1);
        for bit in 0..bits_needed(&exponent, bits) {
            if bit > 0 {
                square = self.shared(Expr::binary(BinaryOp::Mul, square.clone(), square), wide);
            }
            let factor = Expr::select(has_bit(wide, &exponent, bit), square.clone(), constant(wide, 1));
            power = self.shared(Expr::binary(BinaryOp::Mul, power, factor), wide);
        }
        if !dtype.is_signed() {
            return power;
        }
        let negative = Expr::binary(BinaryOp::Lt, exponent.clone(), constant(wide, 0));
        Expr::select(negative, inverse_power(wide, &base, &exponent), power)
    }
}

/// The number of low bits of the exponent that may be set: at most `bits`, and fewer if the exponent is a
/// constant.
fn bits_needed(exponent: &Expr, bits: i64) -> i64 {
    match exponent {
        Expr::Const(k) if k.dtype().is_signed() && k.as_i64() < 0 => 0,
        Expr::Const(k) => 64 - i64::from((k.bits() as u64).leading_zeros()),
        _ => bits,
    }
}

fn has_bit(dtype: DType, x: &Expr, bit: i64) -> Expr {
    let shifted = Expr::binary(BinaryOp::Shr, x.clone(), constant(dtype, bit));
    Expr::binary(
        BinaryOp::Ne,
        Expr::binary(BinaryOp::BitAnd, shifted, constant(dtype, 1)),
        constant(dtype, 0),
    )
}

/// `1 / baseⁿ` truncated: 1 for 1, ±1 for −1, else 0.
fn inverse_power(dtype: DType, base: &Expr, exponent: &Expr) -> Expr {
    let is = |k: i64| Expr::binary(BinaryOp::Eq, base.clone(), constant(dtype, k));
    let [zero, one, minus_one] = [0, 1, -1].map(|k| constant(dtype, k));
    let of_minus_one = Expr::select(has_bit(dtype, exponent, 0), minus_one, one.clone());
    Expr::select(is(1), one, Expr::select(is(-1), of_minus_one, zero))
}
