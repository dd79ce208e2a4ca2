//! Reduces any `f32` by quarter turns in 32-bit integers, after Payne and Hanek, for targets without `f64`.
//! The reduction is recorded as steps.
//!
//! `|x| = m·2ᵉ` with an integer `m` below 2²⁴, so `|x|` is `m·(2ᵉ·2/π)` quarter turns. Whole turns do not
//! matter: 96 bits of 2/π, from the bit worth two quarter turns on, give the product modulo a turn to 2⁻⁷⁰;
//! 62 bits behind the point are kept. No `f32` but 0 is within 2⁻³¹ of a multiple of a quarter turn, so at
//! least 30 bits of the remainder are right. The unsigned integer words are kept in the signed integers of
//! the algebra; no step relies on `fma` rounding once.

use super::algebra::{Algebra, fast_two_sum, fma_const, two_product};
use super::trig::ReducedAngle;

/// The bits of 2/π after the point, and 32 zeros before them.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
/// The greatest position that the first word of a window can have in the table.
const LAST_WINDOW: usize = 4;
/// π/2 in two `f32` parts.
const HALF_PI: [f64; 2] = [1.570_796_370_506_286_6, -4.371_139_000_186_241e-8];
/// The exponent field of π/4. Smaller arguments are not reduced.
const LEAST_EXPONENT: i64 = 126;

/// Reduces |x|, for a finite `x`.
pub(super) fn reduce<A: Algebra>(a: &mut A, x: A::Float) -> ReducedAngle<A> {
    let magnitude = a.abs(x);
    let quarter_pi = a.float(std::f64::consts::FRAC_PI_4);
    let small = a.lt(magnitude, quarter_pi);
    let exponent = exponent_field(a, x);
    let least = a.int(LEAST_EXPONENT);
    let exponent = a.int_select(small, least, exponent);
    let window = window(a, exponent);
    let mantissa = mantissa(a, x);
    let turns = product(a, mantissa, window);
    let (quadrant, high, low) = nearest_quarter(a, turns);
    let (high, low) = as_floats(a, high, low);
    let (r, low) = times_half_pi(a, high, low);
    let (zero, no_turn) = (a.float(0.0), a.int(0));
    ReducedAngle {
        quadrant: a.int_select(small, no_turn, quadrant),
        r: a.select(small, magnitude, r),
        low: a.select(small, zero, low),
    }
}

/// `result`, or NaN where `x` is infinite or NaN.
pub(super) fn or_no_number<A: Algebra>(a: &mut A, x: A::Float, result: A::Float) -> A::Float {
    let (exponent, beyond) = (exponent_field(a, x), a.int(255));
    let is_no_number = a.int_eq(exponent, beyond);
    let nan = a.float(f64::NAN);
    a.select(is_no_number, nan, result)
}

fn exponent_field<A: Algebra>(a: &mut A, x: A::Float) -> A::Int {
    let (bits, mask) = (a.bits(x), a.int(255));
    let shifted = a.shr(bits, 23);
    a.and(shifted, mask)
}

/// The mantissa of a normal number, with its leading bit.
fn mantissa<A: Algebra>(a: &mut A, x: A::Float) -> A::Int {
    let (bits, mask, leading) = (a.bits(x), a.int(0x7f_ffff), a.int(0x80_0000));
    let stored = a.and(bits, mask);
    a.or(stored, leading)
}

/// 96 bits of 2/π in three words, most significant first. The first bit contributes two quarter turns: if `e`
/// is the exponent field less 150, it is bit `e - 2` behind the point, which is bit `e + 30` of the table.
fn window<A: Algebra>(a: &mut A, exponent: A::Int) -> [A::Int; 3] {
    let (offset, all_ones) = (a.int(120), a.int(-1));
    let from = a.int_sub(exponent, offset);
    let first = a.shr(from, 5);
    // This is `31 - from` modulo 32.
    let rest = a.int_sub(all_ones, from);
    let words = words_from(a, first);
    [0, 1, 2].map(|at| {
        let upper = a.shl_by(words[at], from);
        // The word is shifted in two steps, because the total is 32 if `from` is a multiple of 32.
        let lower = shr_logical(a, words[at + 1], 1);
        let lower = a.shr_by(lower, rest);
        a.or(upper, lower)
    })
}

/// Four words of the table from the word `first` on.
fn words_from<A: Algebra>(a: &mut A, first: A::Int) -> [A::Int; 4] {
    let mut words = [0, 1, 2, 3].map(|at| word(a, at));
    for window in 1..=LAST_WINDOW {
        let here = a.int(window as i64);
        let is_here = a.int_eq(first, here);
        for (at, chosen) in words.iter_mut().enumerate() {
            let there = word(a, window + at);
            *chosen = a.int_select(is_here, there, *chosen);
        }
    }
    words
}

fn word<A: Algebra>(a: &mut A, at: usize) -> A::Int {
    a.int(i64::from(TWO_OVER_PI[at] as i32))
}

/// The upper 64 bits of `m · window` modulo 2⁹⁶.
fn product<A: Algebra>(a: &mut A, m: A::Int, [first, second, third]: [A::Int; 3]) -> [A::Int; 2] {
    let carried = high_product(a, m, third);
    let low = a.int_mul(m, second);
    let sum = a.int_add(low, carried);
    // The carried word is below 2²⁴, so the sum overflows exactly if the top bit of `low` is 1 and that of
    // the sum is 0.
    let all_ones = a.int(-1);
    let complement = a.int_sub(all_ones, sum);
    let fallen = a.and(low, complement);
    let overflow = shr_logical(a, fallen, 31);
    let carried = high_product(a, m, second);
    let carried = a.int_add(carried, overflow);
    let high = a.int_mul(m, first);
    [a.int_add(high, carried), sum]
}

/// The upper word of the product of an `m` below 2²⁴ and a word, computed from halves of 16 bits; the upper
/// half of `m` has 8 bits.
fn high_product<A: Algebra>(a: &mut A, m: A::Int, word: A::Int) -> A::Int {
    let ((m_high, m_low), (high, low)) = (halves(a, m), halves(a, word));
    let [first, second, third, fourth] =
        [(m_high, high), (m_high, low), (m_low, high), (m_low, low)].map(|(x, y)| a.int_mul(x, y));
    let carried = shr_logical(a, fourth, 16);
    let middle = a.int_add(second, carried);
    let (middle_high, middle_low) = halves(a, middle);
    let middle = a.int_add(third, middle_low);
    let carried = shr_logical(a, middle, 16);
    let result = a.int_add(first, middle_high);
    a.int_add(result, carried)
}

/// The upper and the lower 16 bits.
fn halves<A: Algebra>(a: &mut A, word: A::Int) -> (A::Int, A::Int) {
    let mask = a.int(0xffff);
    (shr_logical(a, word, 16), a.and(word, mask))
}

/// Right shift by at least 1, filling with zeros.
fn shr_logical<A: Algebra>(a: &mut A, x: A::Int, by: u32) -> A::Int {
    let shifted = a.shr(x, by);
    let mask = a.int((1 << (32 - by)) - 1);
    a.and(shifted, mask)
}

/// Splits a number of quarter turns, with 2 bits before the point and 62 behind it, into the nearest integer
/// and the remainder. The remainder is at most ½ in magnitude, in two's complement.
fn nearest_quarter<A: Algebra>(a: &mut A, [high, low]: [A::Int; 2]) -> (A::Int, A::Int, A::Int) {
    let (half, mask) = (a.int(1 << 29), a.int(-(1 << 30)));
    let rounded = a.int_add(high, half);
    let quadrant = a.shr(rounded, 30);
    let whole = a.and(rounded, mask);
    (quadrant, a.int_sub(high, whole), low)
}

/// A fraction in two's complement as a rounded number and its rounding error, summed from parts of 22, 24 and
/// 16 bits, each exact.
fn as_floats<A: Algebra>(a: &mut A, high: A::Int, low: A::Int) -> (A::Float, A::Float) {
    let (byte, word) = (a.int(0xff), a.int(0xffff));
    let first = a.shr(high, 8);
    let rest = a.and(high, byte);
    let rest = a.shl(rest, 16);
    let upper = shr_logical(a, low, 16);
    let second = a.or(rest, upper);
    let third = a.and(low, word);
    let [first, second, third] = [(first, -22), (second, -46), (third, -62)].map(|(part, exponent)| {
        let (part, unit) = (a.to_float(part), a.float(2f64.powi(exponent)));
        a.mul(part, unit)
    });
    let (sum, lost) = fast_two_sum(a, first, second);
    let lost = a.add(lost, third);
    fast_two_sum(a, sum, lost)
}

/// A number in two parts times π/2.
fn times_half_pi<A: Algebra>(a: &mut A, high: A::Float, low: A::Float) -> (A::Float, A::Float) {
    let half_pi = a.float(HALF_PI[0]);
    let (product, lost) = two_product(a, high, half_pi);
    let lost = fma_const(a, high, HALF_PI[1], lost);
    let lost = a.fma(low, half_pi, lost);
    fast_two_sum(a, product, lost)
}
