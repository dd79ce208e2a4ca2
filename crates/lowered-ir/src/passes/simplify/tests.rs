//! Equations at work in routines, and the conditions that keep them from going too far; `table` tests them
//! one by one.
//!
//! In the expressions `x y` are `f32`, `h` is `f16`, `d` is `f64`, `n m` are `i32`, `u` is `u8`, `p q` are
//! `bool`; `i0` runs over `0..8`.

mod table;

use super::simplify;
use crate::passes::OptimizeSettings;
use crate::text;

const NODES: [(&str, &str); 8] = [
    ("x", "f32"),
    ("y", "f32"),
    ("h", "f16"),
    ("d", "f64"),
    ("n", "i32"),
    ("m", "i32"),
    ("u", "u8"),
    ("p", "bool"),
];

fn routine(expr: &str, numerics: &str) -> String {
    let nodes: String = (0..)
        .zip(NODES)
        .map(|(i, (name, dtype))| format!("node %{i} \"{name}\" {dtype}[8] on_device\n"))
        .collect();
    let named = |word: &str| NODES.iter().position(|(name, _)| *name == word);
    let mut value = String::new();
    for word in split_words(expr) {
        match named(word) {
            Some(i) => value += &format!("%{i}[i0]"),
            None => value += word,
        }
    }
    format!(
        "routine @t {numerics} {{\n{nodes}node %8 \"out\" f32[8] on_device\nfor i0 in 0..8 {{ %8[i0] := {value} }}\n}}\n"
    )
}

/// The words of a text and the texts between them.
fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '%';
        let end = rest.find(|c| in_word(c) != in_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

fn normal(expr: &str, numerics: &str, settings: Option<&OptimizeSettings>) -> String {
    let source = routine(expr, numerics);
    let mut routine = text::parse(&source).unwrap_or_else(|e| panic!("{expr}: {e}\n{source}"));
    if let Some(settings) = settings {
        simplify(&mut routine, settings);
    }
    text::print(&routine)
}

/// Checks that `from` becomes `to` in both classes.
#[track_caller]
fn check(from: &str, to: &str) {
    let settings = OptimizeSettings { fast_math: true, ..OptimizeSettings::default() };
    assert_eq!(normal(from, "strict", Some(&settings)), normal(to, "strict", None), "{from} = {to}");
}

/// Checks that `from` becomes `to` in class `Fast` and does not change in class `Strict`.
#[track_caller]
fn check_fast(from: &str, to: &str) {
    fast(from, to);
    check(from, from);
}

/// Checks that `from` becomes `to` in class `Fast`, without a check of class `Strict`.
#[track_caller]
fn fast(from: &str, to: &str) {
    assert_eq!(
        normal(from, "fast", Some(&OptimizeSettings::default())),
        normal(to, "fast", None),
        "{from} = {to}"
    );
}

/// Checks that `from` becomes `to` in class `Fast` with fast-math on, and something else without it.
#[track_caller]
fn check_real(from: &str, to: &str) {
    let settings = OptimizeSettings { fast_math: true, ..OptimizeSettings::default() };
    assert_eq!(normal(from, "fast", Some(&settings)), normal(to, "fast", None), "{from} = {to}");
    let [fast, strict] = [("fast", OptimizeSettings::default()), ("strict", settings)];
    let less = normal(from, fast.0, Some(&fast.1)).replace("fast {", "strict {");
    assert_eq!(less, normal(from, strict.0, Some(&strict.1)), "{from} without fast-math");
    assert_ne!(less, normal(to, "strict", None), "{from} = {to} is more than strict");
}

#[test]
fn constants_fold_by_the_definitions() {
    check("1.0f32 + 2.0f32", "3.0f32");
    check("7i32 / 0i32", "0i32");
    check("where(1i32 < 2i32, x, y)", "x");
    check("convert i32(2.5f32)", "2i32");
    check("fma(2.0f32, 3.0f32, 1.0f32)", "7.0f32");
    check("bitcast i32(1.0f32)", "1065353216i32");
    check("index i64(3)", "3i64");
    // The project's predecessor simplified `10 - (3 + 2)` wrongly.
    check("10i32 - (3i32 + 2i32)", "5i32");
}

#[test]
fn unary_equations() {
    check("neg(neg(x))", "x");
    check("abs(neg(x))", "abs(x)");
    check("abs(abs(n))", "abs(n)");
    check("relu(u)", "u");
    check("relu(relu(x))", "relu(x)");
    check("relu(satur01(x))", "satur01(x)");
    check("not(not(p))", "p");
    check("not(not(x))", "not(not(x))");
    check("not(not(not(x)))", "not(x)");
    check("floor(n)", "n");
    check("trunc(floor(x))", "floor(x)");
}

#[test]
fn sums() {
    check("n + 0i32", "n");
    check("0i32 + n", "n");
    check("x + -0.0f32", "x");
    check("x + 0.0f32", "x + 0.0f32");
    check("0.0f32 + x", "x + 0.0f32");
    check("(n + 3i32) + 4i32", "n + 7i32");
    check("(x + 3.0f32) + 4.0f32", "(x + 3.0f32) + 4.0f32");
    check("x - 0.0f32", "x");
    check("n - 0i32", "n");
    check("0i32 - n", "neg(n)");
    check("-0.0f32 - x", "neg(x)");
    check("0.0f32 - x", "0.0f32 - x");
    check("x - neg(y)", "x + y");
    check("x - 3.0f32", "x + -3.0f32");
    check("x - y * 0.1f32", "x + y * -0.1f32");
    check("n - n", "0i32");
    check("x - x", "x - x");
    check("(n - 3i32) + 1i32", "n + -2i32");
    // The project's predecessor simplified `c1 - (c2 + x)` wrongly.
    check("10i32 - (3i32 + n)", "7i32 - n");
    check("10i32 - (3i32 - n)", "n + 7i32");
    check("10.0f32 - (3.0f32 + x)", "10.0f32 - (x + 3.0f32)");
}

#[test]
fn products() {
    check("x * 1.0f32", "x");
    check("1.0f16 * h", "h");
    check("n * 0i32", "0i32");
    check("x * 0.0f32", "x * 0.0f32");
    check("x * -1.0f32", "neg(x)");
    check("neg(x) * neg(y)", "x * y");
    check("neg(x) * 3.0f32", "x * -3.0f32");
    check("(n * 3i32) * 4i32", "n * 12i32");
    check("x / 1.0f32", "x");
    check("x / 4.0f32", "x * 0.25f32");
    check("x / -0.5f32", "x * -2.0f32");
    check("x / 3.0f32", "x / 3.0f32");
    check("0i32 / n", "0i32");
    check("n / 0i32", "0i32");
    check("n % 1i32", "0i32");
    check("n / 2i32 / 3i32", "n / 6i32");
    check("1.0f32 / x", "recip(x)");
    check("pow(n, 1i32)", "n");
    check("pow(n, 0i32)", "1i32");
    // The project's predecessor replaced `(a / b) / c` by `(a * c) / b`, which is wrong.
    check("(x / y) / 3.0f32", "(x / y) / 3.0f32");
}

#[test]
fn comparisons_logic_and_bits() {
    check("max(x, x)", "x");
    check("max(x, 0.0f32)", "relu(x)");
    check("n == n", "true");
    check("not(x == y)", "x != y");
    check("not(x < y)", "not(x < y)");
    check("n + 1i32 == 3i32", "n == 2i32");
    check("n < n", "false");
    check("x == x", "x == x");
    check("and(p, true)", "p");
    check("and(false, p)", "false");
    check("or(p, true)", "true");
    check("or(p, p)", "p");
    check("bit_and(n, 0i32)", "0i32");
    check("bit_xor(n, n)", "0i32");
    check("bit_or(n, n)", "n");
    check("shl(n, 0i32)", "n");
}

#[test]
fn selections_and_fma() {
    check("where(p, x, x)", "x");
    check("where(not(p), x, y)", "where(p, y, x)");
    check("where(p, where(p, x, y), x)", "x");
    check("where(index i64(i0) == index i64(i0), x, y)", "x");
    check("fma(x, 1.0f32, y)", "x + y");
    check("fma(1.0f32, x, y)", "x + y");
    check("fma(x, y, -0.0f32)", "x * y");
    check("fma(x, y, 0.0f32)", "fma(x, y, 0.0f32)");
    check("fma(n, m, 0i32)", "n * m");
}

#[test]
fn conversions() {
    check("convert f32(x)", "x");
    check("bitcast f32(bitcast i32(x))", "x");
    check("convert i32(convert f64(x))", "convert i32(x)");
    check("convert f16(convert f32(h))", "h");
    check("convert u8(convert f64(n))", "convert u8(convert f64(n))");
    check("convert f32(convert i32(u))", "convert f32(u)");
    check("convert f32(convert f32(d))", "convert f32(d)");
    check("convert f64(convert f32(d))", "convert f64(convert f32(d))");
    check("convert f32(h) < convert f32(h)", "false");
}

#[test]
fn ranges_decide_guards_and_comparisons() {
    check("guarded(0 <= i0 < 8, %0[i0], 0.0f32)", "x");
    check("guarded(0 <= i0 - 9 < 8, %0[i0 - 9], 1.0f32)", "1.0f32");
    check("guarded(0 <= i0 - 1 < 8, %0[i0 - 1], 0.0f32)", "guarded(0 <= i0 - 1 < 8, %0[i0 - 1], 0.0f32)");
    check("index i64(i0) < 8i64", "true");
    check("8i64 <= index i64(i0)", "false");
    check("index i64(i0) == 9i64", "false");
    check("index i64(i0) < 7i64", "index i64(i0) < 7i64");
    check("index i64(i0) < index i64(i0 + 1)", "true");
    check("index i64(2*i0) == index i64(i0)", "index i64(2*i0) == index i64(i0)");
}

#[test]
fn indices_take_in_the_arithmetic_around_them() {
    check("index i32(i0) + 2i32 - index i32(i0 - 1)", "3i32");
    check("convert i32(index i64(i0) * 3i64)", "index i32(3*i0)");
    check("index i32(i0) + 2147483647i32", "index i32(i0) + 2147483647i32");
    check("neg(index i32(i0))", "index i32(-i0)");
}

#[test]
fn fast_powers() {
    check_fast("pow(x, 1.0f32)", "x");
    check_fast("pow(x, -1.0f32)", "recip(x)");
    check("pow(x, 0.0f32)", "1.0f32");
}

#[test]
fn fast_tanh() {
    check_fast("tanh(x) + 1.0f32", "2.0f32 / (exp(x * -2.0f32) + 1.0f32)");
    check_fast("1.0f32 - tanh(x)", "2.0f32 / (exp(x * 2.0f32) + 1.0f32)");
    check("tanh(h) + 1.0f16", "tanh(h) + 1.0f16");
    // The logistic function and the Gaussian error linear unit, in the ways that people write them.
    let halved = ["(tanh(x) + 1.0f32) * 0.5f32", "0.5f32 * (1.0f32 + tanh(x))"];
    for sum in halved {
        fast(sum, "recip(exp(x * -2.0f32) + 1.0f32)");
    }
    let gelu = ["x * 0.5f32 * (tanh(y) + 1.0f32)", "0.5f32 * (x * (1.0f32 + tanh(y)))"];
    for text in gelu {
        fast(text, "x / (exp(y * -2.0f32) + 1.0f32)");
    }
}

#[test]
fn fast_powers_of_two() {
    check_fast("(x * 3.0f32) * -2.0f32", "x * -6.0f32");
    check_fast("(3.0f32 / x) * 0.5f32", "1.5f32 / x");
    // 1.5 rounds, and 1e38 · 4 overflows.
    fast("(x * 3.0f32) * 1.5f32", "x * 3.0f32 * 1.5f32");
    fast("(x * 1e38f32) * 4.0f32", "x * 1e38f32 * 4.0f32");
}

#[test]
fn equations_of_the_reals_are_asked_for() {
    check_real("(x + 3.0f32) + 4.0f32", "x + 7.0f32");
    check_real("(x - 3.0f32) + 4.0f32", "x + 1.0f32");
    check_real("(x * 3.0f32) * 5.0f32", "x * 15.0f32");
    check_real("10.0f32 - (3.0f32 + x)", "7.0f32 - x");
    check_real("(x / y) / 3.0f32", "x / (y * 3.0f32)");
    check_real("x * 0.0f32", "0.0f32");
    // The product of the constants would overflow.
    let too_far = "(x * 1e30f32) * 1e30f32";
    let settings = OptimizeSettings { fast_math: true, ..OptimizeSettings::default() };
    assert_eq!(normal(too_far, "fast", Some(&settings)), normal(too_far, "fast", None));
}
