//! Reduces large angles by quarter turns, after Payne and Hanek, with a table of 2/π that has enough bits for
//! every exponent of the format.
//!
//! `|x| = m·2ᵉ` with an integer `m` below 2⁵³, so `x` is `m·(2ᵉ·2/π)` quarter turns. Whole turns do not
//! matter: 192 bits of 2/π, from the bit worth two quarter turns on, give the product modulo a turn to 2⁻¹³⁷.
//! No `f64` but 0 is within 2⁻⁶² of a multiple of a quarter turn, so at least 75 bits of the remainder are
//! right.

/// The bits of 2/π after the point, and 64 zeros before them.
const TWO_OVER_PI: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];
const HALF_PI: f64 = std::f64::consts::FRAC_PI_2;
/// π/2 beyond the first 53 bits.
const HALF_PI_LOW: f64 = 6.123233995736766e-17;

/// `x = quadrant·π/2 + r + r'` modulo whole turns, with `r` within ±π/4 and `r'` the rounding error of `r`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Angle {
    pub(super) quadrant: i64,
    pub(super) r: f64,
    pub(super) low: f64,
}

/// Reduces a finite `x` of at least 2⁴⁰.
pub(super) fn reduce(x: f64) -> Angle {
    let turns = quarter_turns(x);
    // The top two bits count quarter turns. Subtracting the nearest whole number of them leaves a fraction,
    // in two's complement.
    let quarter = 1u64 << 62;
    let rounded = turns[0].wrapping_add(quarter / 2);
    let quadrant = (rounded >> 62) as i64;
    let fraction = [turns[0].wrapping_sub(rounded & !(quarter - 1)), turns[1], turns[2]];
    let negative = fraction[0] >> 63 == 1;
    let (high, low) = magnitude_in_two_parts(if negative { negated(fraction) } else { fraction });
    let r = high * HALF_PI;
    let lost = high.mul_add(HALF_PI, -r);
    let lost = low.mul_add(HALF_PI, high.mul_add(HALF_PI_LOW, lost));
    let sign = if negative == (x < 0.0) { 1.0 } else { -1.0 };
    Angle { quadrant: if x < 0.0 { -quadrant } else { quadrant }, r: sign * r, low: sign * lost }
}

/// |x|·2/π modulo 4, as a binary fraction of 192 bits, the most significant word first, with two bits before
/// the point.
fn quarter_turns(x: f64) -> [u64; 3] {
    let bits = x.to_bits();
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let exponent = ((bits >> 52) & 0x7ff) as usize;
    // The bit worth 2·2⁻ᵉ, where e = exponent - 1075, is bit e - 2 behind the point.
    let from = (exponent + 64).saturating_sub(1075 + 2);
    let [high, middle, low] = [0, 1, 2].map(|i| u128::from(word_at(from + 64 * i)));
    let low = mantissa * low;
    let middle = mantissa * middle + (low >> 64);
    let high = mantissa * high + (middle >> 64);
    [high as u64, middle as u64, low as u64]
}

/// 64 bits of the table from this bit on.
fn word_at(bit: usize) -> u64 {
    let (word, shift) = (bit / 64, bit % 64);
    let [first, second] = [0, 1].map(|i| u128::from(TWO_OVER_PI.get(word + i).copied().unwrap_or(0)));
    ((first << 64 | second) >> (64 - shift)) as u64
}

fn negated([high, middle, low]: [u64; 3]) -> [u64; 3] {
    let rest = (u128::from(middle) << 64 | u128::from(low)).wrapping_neg();
    let high = if rest == 0 { high.wrapping_neg() } else { !high };
    [high, (rest >> 64) as u64, rest as u64]
}

/// A fraction as the sum of its first 53 significant bits and the rest, rounded.
fn magnitude_in_two_parts([high, middle, low]: [u64; 3]) -> (f64, f64) {
    // The fraction is at most half a quarter, so at least its two highest bits are zero.
    let zeros = high.leading_zeros().clamp(1, 63);
    let (upper, lower) = (u128::from(high) << 64 | u128::from(middle), u128::from(low) << 64);
    let upper = upper << zeros | lower >> (128 - zeros);
    let scale = 2f64.powi(-62 - zeros as i32);
    let first = (upper >> 75) as u64;
    let rest = (upper << 53 >> 64) as u64;
    (first as f64 * 2f64.powi(11) * scale, rest as f64 * 2f64.powi(-53) * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_hard_cases() {
        // The double nearest to a multiple of a quarter turn, and its cosine, from Muller's Elementary
        // Functions.
        let angle = reduce(6_381_956_970_095_103.0 * 2f64.powi(797));
        assert_eq!(angle.quadrant, 1);
        assert_eq!(angle.r + angle.low, 4.687165924254628e-19);
    }

    #[test]
    fn negative_angles_mirror_positive_ones() {
        for x in [1e13, 1e22, 7e300, f64::MAX] {
            let (a, b) = (reduce(x), reduce(-x));
            assert_eq!((a.quadrant, a.r, a.low), (-b.quadrant, -b.r, -b.low));
            assert!(
                a.r.abs() <= std::f64::consts::FRAC_PI_4 + 1e-15 && a.low.abs() <= a.r.abs() * 2f64.powi(-52)
            );
        }
    }
}
