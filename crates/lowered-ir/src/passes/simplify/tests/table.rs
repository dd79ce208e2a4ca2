//! The table itself: every equation is well formed, true on every type, applied, and listed in the
//! documentation.

use std::collections::BTreeSet;
use std::fmt::Write;

use tnode::{DType, Scalar};

use super::super::pattern::{EquationMatch, Pattern, parse};
use super::super::{Equation, EquationClass, chapters, equations};
use crate::eval;
use crate::ir::{BinaryOp, Expr, LocalId, TernaryOp, UnaryOp};

fn sides(equation: &Equation) -> [Pattern; 2] {
    [equation.left, equation.right]
        .map(|text| parse(text).unwrap_or_else(|e| panic!("{}: `{e}` in `{text}`", equation.name)))
}

fn patterns() -> impl Iterator<Item = (&'static Equation, [Pattern; 2])> {
    equations().filter(|e| e.is_pattern()).map(|e| (e, sides(e)))
}

/// The letters in a pattern, as often as they occur.
fn letters(pattern: &Pattern) -> Vec<char> {
    match pattern {
        Pattern::Any(letter) | Pattern::Constant(letter) => vec![*letter],
        Pattern::Number(_) | Pattern::NegativeZero | Pattern::Truth(_) => Vec::new(),
        Pattern::Unary(_, x) => letters(x),
        Pattern::Binary(_, sides) => sides.iter().flat_map(letters).collect(),
        Pattern::Ternary(_, sides) => sides.iter().flat_map(letters).collect(),
    }
}

fn is_constant(pattern: &Pattern) -> bool {
    letters(pattern).iter().all(|l| matches!(l, 'c' | 'd'))
}

/// The measure that each equation makes smaller; see the module documentation.
fn measure(pattern: &Pattern) -> [usize; 4] {
    if is_constant(pattern) {
        return [0, 1, 0, 0];
    }
    let (own, operands): ([usize; 4], &[Pattern]) = match pattern {
        Pattern::Unary(op, x) => ([usize::from(*op == UnaryOp::Tanh), 1, 0, 0], std::slice::from_ref(&**x)),
        Pattern::Binary(op, sides) => {
            let slow = usize::from(matches!(op, BinaryOp::Div | BinaryOp::Sub));
            let left = usize::from(is_constant(&sides[0]));
            ([0, 1, slow, left], &**sides)
        }
        Pattern::Ternary(op, sides) => {
            let left = usize::from(*op == TernaryOp::Fma && is_constant(&sides[0]));
            ([0, if *op == TernaryOp::Mul3 { 3 } else { 1 }, 0, left], &**sides)
        }
        _ => ([0, 1, 0, 0], &[]),
    };
    operands.iter().map(measure).fold(own, |sum, m| std::array::from_fn(|i| sum[i] + m[i]))
}

#[test]
fn every_equation_is_well_formed_and_makes_its_expression_smaller() {
    let mut names = BTreeSet::new();
    for equation in equations() {
        assert!(names.insert(equation.name), "two equations are called {}", equation.name);
    }
    for (equation, [left, right]) in patterns() {
        let (of_left, of_right) = (letters(&left), letters(&right));
        for letter in "xyzpq".chars() {
            let count = |all: &[char]| all.iter().filter(|&&l| l == letter).count();
            assert!(count(&of_right) <= count(&of_left), "{} repeats {letter}", equation.name);
        }
        assert!(of_right.iter().all(|l| of_left.contains(l)), "{} makes up a letter", equation.name);
        assert!(measure(&right) < measure(&left), "{} makes nothing smaller", equation.name);
    }
}

/// Values where equations go wrong: zeros of both signs, the ends of the range, subnormals, infinities, NaN,
/// and numbers with inexact results.
fn edges(dtype: DType) -> Vec<Scalar> {
    let bits = 8 * dtype.size_bytes() as u32;
    let top = 1u128 << (bits - 1);
    let mut values: Vec<Scalar> = if dtype == DType::Bool {
        vec![Scalar::zero(dtype), Scalar::one(dtype)]
    } else if dtype.is_float() {
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            3.0,
            -2.5,
            0.1,
            1e-3,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let numbers = numbers.map(|x| Scalar::from_f64(dtype, x));
        // The least subnormal numbers of both signs, and a subnormal that is no power of two; below, the
        // greatest number.
        let ends = [1, top + 1, 3].map(|b| Scalar::new(dtype, b));
        let greatest = (0..top).rev().take(1 << 23).map(|b| Scalar::new(dtype, b));
        let greatest = match dtype {
            DType::F64 => Some(Scalar::from_f64(dtype, f64::MAX)),
            DType::F32 => Some(Scalar::from_f64(dtype, f64::from(f32::MAX))),
            _ => greatest.into_iter().find(|x| x.as_f64().is_finite()),
        };
        numbers.into_iter().chain(ends).chain(greatest).collect()
    } else {
        let numbers = [0, 1, 2, 3, -1, -2, 7, i64::from(bits) - 1];
        let ends = [top, top - 1].map(|b| Scalar::new(dtype, b));
        numbers.into_iter().map(|x| Scalar::from_i64(dtype, x)).chain(ends).collect()
    };
    values.dedup();
    values
}

/// A function of the values of letters that returns whether to stop.
type Check<'c> = dyn FnMut(&[(char, Scalar)]) -> bool + 'c;

/// Calls `check` with every assignment of edge values of the type to the letters, until it returns true.
fn each_assignment(letters: &[char], dtype: DType, check: &mut Check<'_>) -> bool {
    fn step(rest: &[char], dtype: DType, so_far: &mut Vec<(char, Scalar)>, check: &mut Check<'_>) -> bool {
        let Some((&letter, rest)) = rest.split_first() else { return check(so_far) };
        let of = if matches!(letter, 'p' | 'q') { DType::Bool } else { dtype };
        edges(of).into_iter().any(|value| {
            so_far.push((letter, value));
            let stop = step(rest, dtype, so_far, check);
            so_far.pop();
            stop
        })
    }
    step(letters, dtype, &mut Vec::new(), check)
}

/// Both sides of an equation where its condition holds; `None` where it does not. The condition sees
/// constants for the letters `c` and `d`, and varying expressions for the others.
fn evaluated(
    (equation, [left, right]): (&Equation, &[Pattern; 2]),
    dtype: DType,
    values: &[(char, Scalar)],
) -> Option<(Scalar, Scalar)> {
    let constants: Vec<(char, Expr)> = values.iter().map(|&(l, v)| (l, Expr::Const(v))).collect();
    let varying = Expr::local(LocalId(0));
    let as_seen = constants.iter().map(|(l, e)| (*l, if matches!(l, 'c' | 'd') { e } else { &varying }));
    if !(equation.when.holds)(&EquationMatch::of(as_seen, dtype)) {
        return None;
    }
    let found = EquationMatch::of(constants.iter().map(|(l, e)| (*l, e)), dtype);
    let value = |side: &Pattern| match side.build(&found) {
        Expr::Const(value) => value,
        other => panic!("{}: {other:?} is no constant", equation.name),
    };
    Some((value(left), value(right)))
}

fn alike(a: Scalar, b: Scalar) -> bool {
    a == b || (a.dtype() == b.dtype() && a.dtype().is_float() && a.as_f64().is_nan() && b.as_f64().is_nan())
}

fn types() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|&d| d != DType::U32x4)
}

fn distinct(pattern: &Pattern) -> Vec<char> {
    letters(pattern).into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn strict_equations_keep_every_bit_on_every_type() {
    let mut wrong = Vec::new();
    for (equation, sides) in patterns().filter(|(e, _)| e.class == EquationClass::Strict) {
        let mut used = false;
        for dtype in types() {
            each_assignment(&distinct(&sides[0]), dtype, &mut |values| {
                if let Some((left, right)) = evaluated((equation, &sides), dtype, values) {
                    used = true;
                    let Equation { name, left: l, right: r, .. } = equation;
                    if !alike(left, right) {
                        wrong.push(format!("{name}: {l} = {r} on {values:?}: {left:?} and {right:?}"));
                        return true;
                    }
                }
                false
            });
        }
        assert!(used, "{} holds nowhere", equation.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn other_equations_are_not_strict() {
    for (equation, sides) in patterns().filter(|(e, _)| e.class != EquationClass::Strict) {
        let differs = types().any(|dtype| {
            each_assignment(&distinct(&sides[0]), dtype, &mut |values| {
                evaluated((equation, &sides), dtype, values).is_some_and(|(left, right)| !alike(left, right))
            })
        });
        // The edge values do not show the rounding of `pow`; other values do.
        let rounds = || (1..1000).any(|i| !alike(power(i, 1.0), x(i)) || !alike(power(i, -1.0), inverse(i)));
        assert!(differs || rounds(), "{} is strict", equation.name);
    }
}

fn x(i: i32) -> Scalar {
    Scalar::from_f64(DType::F64, 1.0 + f64::from(i) * 0.123)
}

fn inverse(i: i32) -> Scalar {
    eval::unary(crate::ir::UnaryOp::Recip, x(i))
}

fn power(i: i32, n: f64) -> Scalar {
    eval::binary(BinaryOp::Pow, x(i), Scalar::from_f64(DType::F64, n))
}

/// The greatest error of a side of an equation of tanh in units of the last place, over results that are
/// normal `f32`.
fn error_of_tanh(side: &Pattern, truth: impl Fn(f64) -> f64) -> f64 {
    let arguments = (-87_000..=87_000).map(|i| f64::from(i as f32 * 1e-3));
    let error = |x: f64| {
        let argument = Expr::Const(Scalar::from_f64(DType::F32, x));
        let Expr::Const(value) = side.build(&EquationMatch::of([('x', &argument)], DType::F32)) else {
            return 0.0;
        };
        let truth = truth(x);
        let is_normal = truth >= f64::from(f32::MIN_POSITIVE);
        if is_normal { (value.as_f64() / truth - 1.0).abs() / f64::from(f32::EPSILON) } else { 0.0 }
    };
    arguments.map(error).fold(0.0, f64::max)
}

#[test]
fn equations_of_tanh_are_more_exact() {
    for (name, factor) in [("tanh and one", -2.0f64), ("one less tanh", 2.0)] {
        let (_, [left, right]) = patterns().find(|(e, _)| e.name == name).expect("it is in the table");
        let [left, right] =
            [left, right].map(|side| error_of_tanh(&side, |x| 2.0 / ((factor * x).exp() + 1.0)));
        assert!(left > 1e6 && right < 2.5, "{name}: {left} and {right} ulp");
    }
}

/// Checks on every value of the narrow types that a conversion by way of a wider type equals the direct one
/// if the pass removes the detour.
#[test]
fn conversions_pass_through_on_every_value() {
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn, DType::I8, DType::U16] {
        for through in types() {
            let ends = types().filter(|&to| super::super::convert::passes_through(dtype, through, to));
            for to in ends.collect::<Vec<_>>() {
                for bits in 0..1u128 << (8 * dtype.size_bytes()) {
                    let x = Scalar::new(dtype, bits);
                    let (detour, direct) = (x.convert(through).convert(to), x.convert(to));
                    assert!(alike(detour, direct), "{x:?} {through} {to}");
                }
            }
        }
    }
}

fn listing() -> String {
    let mut text = include_str!("equations_head.md").to_owned();
    for (title, equations) in chapters() {
        write!(text, "\n## {title}\n\n| name | equation | holds | class |\n|---|---|---|---|\n")
            .expect("a string");
        for Equation { name, left, right, when, class, .. } in equations {
            let sides =
                if *name == "fold" { format!("{left} = {right}") } else { format!("`{left}` = `{right}`") };
            writeln!(text, "| {name} | {sides} | {} | {} |", when.text, class.name()).expect("a string");
        }
    }
    text
}

/// `BLESS=1` writes the list anew.
#[test]
fn the_documentation_lists_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/equations.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, listing()).expect("the documentation can be written");
    }
    let listed = std::fs::read_to_string(path).expect("the documentation has the list");
    assert!(listed == listing(), "docs/equations.md is not the table: run this test with BLESS=1");
}
