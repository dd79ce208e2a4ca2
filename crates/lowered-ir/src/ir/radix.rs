//! Mixed-radix numbers: when the value of an index determines its variables.

/// Whether `Σ coefficient · digit` determines every digit, where a digit takes `extent` consecutive values.
///
/// `digits` lists `(|coefficient|, extent)`, in any order; the function sorts them. The condition is that
/// each coefficient exceeds the greatest sum of the terms with smaller coefficients. It is sufficient, not
/// necessary. It is false if the sum does not fit 64 bits, where wrapping might give two combinations of
/// digits the same sum.
pub fn is_mixed_radix(digits: &mut [(u64, u64)]) -> bool {
    digits.sort_unstable();
    let reach = digits.iter().try_fold(0u64, |reach, &(coefficient, extent)| {
        if coefficient <= reach {
            return None;
        }
        reach.checked_add(coefficient.checked_mul(extent.saturating_sub(1))?)
    });
    reach.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_told_apart_where_no_sum_of_smaller_ones_reaches_the_next() {
        assert!(is_mixed_radix(&mut []));
        assert!(is_mixed_radix(&mut [(12, 2), (1, 4), (4, 3)]));
        assert!(is_mixed_radix(&mut [(3, 3), (1, 2)]), "gaps do no harm");
        assert!(!is_mixed_radix(&mut [(1, 3), (2, 3)]), "2·1 + 0 = 2·0 + 2");
        assert!(!is_mixed_radix(&mut [(3, 3), (4, 2)]), "not decided: 3a + 4b is injective here");
        assert!(is_mixed_radix(&mut [(1, 5), (1, 1)]), "a digit with one value is known");
        assert!(!is_mixed_radix(&mut [(0, 2)]));
        assert!(!is_mixed_radix(&mut [(1 << 63, 3)]), "2⁶⁴ wraps to 0");
    }
}
