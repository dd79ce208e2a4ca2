//! Affine indices as sums of computed values.

use lowered_ir::ir::{Affine, Var};
use smallvec::SmallVec;

/// The current value of a loop variable or symbol: `factor · value + offset`, or the constant `offset`.
#[derive(Clone, Copy, Debug)]
pub struct LinearValue<T> {
    /// The computed part: a value and its factor.
    pub term: Option<(T, i64)>,
    /// The constant part.
    pub offset: i64,
}

impl<T> LinearValue<T> {
    /// A value that the code computes.
    pub fn computed(value: T) -> Self {
        LinearValue { term: Some((value, 1)), offset: 0 }
    }

    /// A value that is known while code is emitted.
    pub fn known(value: i64) -> Self {
        LinearValue { term: None, offset: value }
    }
}

/// An affine index in terms of computed values: the sum of all `factor · value`, plus a constant. Each value
/// occurs once, and no factor is 0. The arithmetic wraps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSum<T> {
    /// Values and their factors.
    pub terms: SmallVec<[(T, i64); 4]>,
    /// The sum of all known parts.
    pub offset: i64,
}

impl<T: Copy + PartialEq> IndexSum<T> {
    /// Replaces every variable of an index by its value. The terms are in the order of the variables.
    pub fn new(index: &Affine, value_of: impl FnMut(Var) -> LinearValue<T>) -> Self {
        Self::of_terms(index.terms(), index.offset(), value_of)
    }

    /// Like [`IndexSum::new`], for the terms of an index in another order.
    pub(super) fn of_terms(
        terms: &[(Var, i64)],
        offset: i64,
        mut value_of: impl FnMut(Var) -> LinearValue<T>,
    ) -> Self {
        let mut sum = IndexSum { terms: SmallVec::new(), offset };
        for &(var, factor) in terms {
            let LinearValue { term, offset } = value_of(var);
            sum.offset = sum.offset.wrapping_add(offset.wrapping_mul(factor));
            if let Some((value, scale)) = term {
                sum.add(value, scale.wrapping_mul(factor));
            }
        }
        sum.terms.retain(|(_, factor)| *factor != 0);
        sum
    }

    fn add(&mut self, value: T, factor: i64) {
        match self.terms.iter_mut().find(|(other, _)| *other == value) {
            Some((_, sum)) => *sum = sum.wrapping_add(factor),
            None => self.terms.push((value, factor)),
        }
    }

    /// The index, if no part of it is computed.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }
}

/// The digits of `number` in a mixed radix; the last digit is the least significant. `None` for a digit that
/// can only be 0. `number` is less than the product of the extents.
///
/// `divide(n, extent, below)` emits quotient and remainder of `n`, which is less than `below`.
pub fn mixed_radix_digits<V: Copy>(
    number: V,
    extents: &[u32],
    mut divide: impl FnMut(V, u32, u64) -> (V, V),
) -> Vec<Option<V>> {
    let mut digits = vec![None; extents.len()];
    let mut below = extents.iter().fold(1u64, |all, &extent| all.saturating_mul(extent.into()));
    let first = extents.iter().position(|&extent| extent > 1);
    let mut rest = number;
    for (at, &extent) in extents.iter().enumerate().rev().filter(|(_, extent)| **extent > 1) {
        if Some(at) == first {
            digits[at] = Some(rest);
            break;
        }
        let (quotient, remainder) = divide(rest, extent, below);
        digits[at] = Some(remainder);
        (rest, below) = (quotient, below / u64::from(extent));
    }
    digits
}

#[cfg(test)]
mod tests {
    use lowered_ir::ir::{Affine, LoopId, Var};

    use super::{IndexSum, LinearValue, mixed_radix_digits};

    /// `3·i0 + 5·i1 - 3·i2 + 7`, for which `i0` and `i2` are the same computed value and `i1` is 2.
    #[test]
    fn equal_values_are_added_and_known_ones_folded() {
        let mut index = Affine::constant(7);
        for (var, factor) in [(0, 3), (1, 5), (2, -3)] {
            index.add_term(LoopId(var).into(), factor);
        }
        let value_of = |var: Var| match var {
            Var::Loop(LoopId(1)) => LinearValue::known(2),
            _ => LinearValue { term: Some(("x", 4)), offset: 1 },
        };
        let sum = IndexSum::new(&index, value_of);
        assert_eq!(sum.as_constant(), Some(7 + 10 + 3 - 3));
        let sum = IndexSum::new(&index.plus(&Affine::var(LoopId(0))), value_of);
        assert_eq!((sum.terms.as_slice(), sum.offset, sum.as_constant()), (&[("x", 4)][..], 18, None));
    }

    #[test]
    fn digits_of_every_number() {
        let extents = [1, 3, 1, 4, 5, 1];
        for number in 0..60u32 {
            let digits = mixed_radix_digits(number, &extents, |n, by, below| {
                assert!(u64::from(n) < below);
                (n / by, n % by)
            });
            let value = |sum, (digit, extent): (&Option<u32>, u32)| sum * extent + digit.unwrap_or(0);
            assert_eq!(digits.iter().zip(extents).fold(0, value), number);
            assert_eq!(digits.iter().map(Option::is_some).collect::<Vec<_>>(), extents.map(|e| e > 1));
        }
    }
}
