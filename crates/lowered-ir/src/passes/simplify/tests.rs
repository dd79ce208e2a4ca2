//! One line per equation, and the conditions that keep it from going too far.
//!
//! In the expressions `x y` are `f32`, `h` is `f16`, `d` is `f64`, `n m` are `i32`, `u` is `u8`, `p q` are `bool`; `i0` runs over
//! `0..8`.

use tnode::{DType, Scalar};

use super::simplify;
use crate::eval;
use crate::ir::{BinaryOp, UnaryOp};
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

/// Words and what stands between them.
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

fn normal(expr: &str, numerics: &str, simplified: bool) -> String {
    let source = routine(expr, numerics);
    let mut routine = text::parse(&source).unwrap_or_else(|e| panic!("{expr}: {e}\n{source}"));
    if simplified {
        simplify(&mut routine);
    }
    text::print(&routine)
}

/// The left side becomes the right side.
#[track_caller]
fn check(from: &str, to: &str) {
    assert_eq!(normal(from, "strict", true), normal(to, "strict", false), "{from} = {to}");
}

/// The same in the class `Fast`; in `Strict` nothing happens.
#[track_caller]
fn check_fast(from: &str, to: &str) {
    assert_eq!(normal(from, "fast", true), normal(to, "fast", false), "{from} = {to}");
    check(from, from);
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
    // Where the seed went wrong: 10 - (3 + 2).
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
    check("x - y * 0.1f32", "x + y * -0.1f32");
    check("n - n", "0i32");
    check("x - x", "x - x");
    check("(n - 3i32) + 1i32", "n + -2i32");
    // Where the seed went wrong: c1 - (c2 + x).
    check("10i32 - (3i32 + n)", "10i32 - (n + 3i32)");
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
    check("pow(n, 2i32)", "n * n");
    check("pow(n, 1i32)", "n");
    check("pow(n, 0i32)", "1i32");
    // Where the seed went wrong: (a / b) / c is not (a * c) / b.
    check("(x / y) / 3.0f32", "(x / y) / 3.0f32");
}

#[test]
fn comparisons_logic_and_bits() {
    check("max(x, x)", "x");
    check("n == n", "true");
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
}

#[test]
fn fast_powers() {
    check_fast("pow(x, 2.0f32)", "x * x");
    check_fast("pow(x, 1.0f32)", "x");
}

/// Every 8- and 16-bit value, and some of the wider ones, through the equations whose truth depends on the format.
#[test]
fn exact_equations_hold_on_every_value() {
    let alike = |a: Scalar, b: Scalar| a == b || (a.as_f64().is_nan() && b.as_f64().is_nan());
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn] {
        let negative_zero = eval::unary(UnaryOp::Neg, Scalar::zero(dtype));
        for bits in 0..1u128 << (8 * dtype.size_bytes()) {
            let x = Scalar::new(dtype, bits);
            assert!(alike(eval::unary(UnaryOp::Neg, eval::unary(UnaryOp::Neg, x)), x));
            assert!(alike(eval::binary(BinaryOp::Mul, x, Scalar::one(dtype)), x));
            assert!(alike(eval::binary(BinaryOp::Add, x, negative_zero), x));
            assert!(alike(eval::binary(BinaryOp::Sub, x, Scalar::zero(dtype)), x));
            assert!(alike(x.convert(DType::F32).convert(dtype), x));
            for to in DType::ALL {
                for through in DType::ALL.into_iter().filter(|&t| super::strict::passes_through(dtype, t, to))
                {
                    assert!(alike(x.convert(through).convert(to), x.convert(to)), "{x:?} {through} {to}");
                }
            }
        }
    }
}
