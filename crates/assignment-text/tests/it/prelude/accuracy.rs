//! The accuracy of the functions of elements, against arithmetic of at least 256 bits.
//!
//! `docs/prelude.md` states the bounds. The arguments are spread over the range of each function, over all
//! magnitudes down to subnormals, and over its tails. On 16-bit floats, the result is the nearest value of
//! the function in `f64`, unless that is nearly halfway between two values.

use assignment_text::parse;
use astro_float::{BigFloat, Consts};
use tnode::{DType, Scalar};

use crate::distance::{Format, ulps, ulps_from};
use crate::program::{Machine, node};
use crate::reference::{ROUND, big, erf};

/// A number, the precision in bits, and constants.
type Reference = fn(&BigFloat, usize, &mut Consts) -> BigFloat;

/// A function, its exact value, the range of its arguments, and its bounds in ulp for `f32` and `f64`.
struct Function {
    name: &'static str,
    exact: Reference,
    /// The range of `f32` is narrower in the ratio of the exponents.
    range: (f64, f64),
    bounds: [f64; 2],
    /// What the bound grows by, for a negative argument of that magnitude.
    tail: fn(f64) -> f64,
}

const fn function(name: &'static str, exact: Reference, range: (f64, f64), bounds: [f64; 2]) -> Function {
    Function { name, exact, range, bounds, tail: |_| 0.0 }
}

fn number(x: f64) -> BigFloat {
    big(x)
}

fn add(a: &BigFloat, b: &BigFloat, p: usize) -> BigFloat {
    a.add(b, p, ROUND)
}

fn sub(a: &BigFloat, b: &BigFloat, p: usize) -> BigFloat {
    a.sub(b, p, ROUND)
}

fn mul(a: &BigFloat, b: &BigFloat, p: usize) -> BigFloat {
    a.mul(b, p, ROUND)
}

fn div(a: &BigFloat, b: &BigFloat, p: usize) -> BigFloat {
    a.div(b, p, ROUND)
}

fn exp(x: &BigFloat, p: usize, c: &mut Consts) -> BigFloat {
    x.exp(p, ROUND, c)
}

fn log(x: &BigFloat, p: usize, c: &mut Consts) -> BigFloat {
    x.ln(p, ROUND, c)
}

fn one() -> BigFloat {
    number(1.0)
}

fn sigmoid(x: &BigFloat, p: usize, c: &mut Consts) -> BigFloat {
    div(&one(), &add(&one(), &exp(&x.neg(), p, c), p), p)
}

fn softplus(x: &BigFloat, p: usize, c: &mut Consts) -> BigFloat {
    // Of greater numbers, the difference is beyond any precision.
    if x.cmp(&number(1e4)) > Some(0) { x.clone() } else { log(&add(&one(), &exp(x, p, c), p), p, c) }
}

/// alpha · (exp(x) − 1) below 0.
fn scaled_elu(x: &BigFloat, alpha: f64, p: usize, c: &mut Consts) -> BigFloat {
    if x.is_positive() { x.clone() } else { mul(&number(alpha), &sub(&exp(x, p, c), &one(), p), p) }
}

fn halves(x: &BigFloat, sign: f64, p: usize, c: &mut Consts) -> BigFloat {
    let (up, down) = (exp(x, p, c), mul(&number(sign), &exp(&x.neg(), p, c), p));
    mul(&number(0.5), &add(&up, &down, p), p)
}

fn root(x: &BigFloat, square: f64, p: usize) -> BigFloat {
    add(&mul(x, x, p), &number(square), p).sqrt(p, ROUND)
}

/// x · sigmoid(√(8/π) · (x + 0.044715 x³)).
fn gelu_tanh(x: &BigFloat, p: usize, c: &mut Consts) -> BigFloat {
    let cubic = add(&one(), &mul(&number(0.044715), &mul(x, x, p), p), p);
    let slope = div(&number(8.0), &c.pi(p, ROUND), p).sqrt(p, ROUND);
    mul(x, &sigmoid(&mul(&mul(&slope, x, p), &cubic, p), p, c), p)
}

fn functions() -> Vec<Function> {
    let gelu: Reference = |x, p, c| {
        let scaled = div(&x.neg(), &number(2.0).sqrt(p, ROUND), p);
        mul(&mul(&number(0.5), x, p), &sub(&one(), &erf(&scaled, p, c), p), p)
    };
    vec![
        function("log_sigmoid", |x, p, c| softplus(&x.neg(), p, c).neg(), (-745.0, 745.0), [2.5, 2.5]),
        function("softplus", softplus, (-745.0, 745.0), [2.5, 2.5]),
        Function {
            tail: |x| x / 2.0,
            ..function("silu", |x, p, c| mul(x, &sigmoid(x, p, c), p), (-745.0, 745.0), [3.0, 3.0])
        },
        Function {
            tail: |x| x / 2.0,
            ..function(
                "mish",
                |x, p, c| mul(x, &softplus(x, p, c).tanh(p, ROUND, c), p),
                (-745.0, 40.0),
                [5.0, 5.0],
            )
        },
        Function { tail: |x| 2.0 * x * x, ..function("gelu", gelu, (-38.0, 38.0), [8.0, 8.0]) },
        Function {
            tail: |x| 4.0 * x + x.powi(3) / 4.0,
            ..function("gelu_tanh", gelu_tanh, (-21.0, 21.0), [8.0, 8.0])
        },
        function("elu", |x, p, c| scaled_elu(x, 1.0, p, c), (-40.0, 40.0), [2.0, 2.0]),
        function("celu", |x, p, c| scaled_elu(x, 1.0, p, c), (-40.0, 40.0), [2.0, 2.0]),
        function(
            "selu",
            |x, p, c| mul(&number(1.0507009873554805), &scaled_elu(x, 1.6732632423543772, p, c), p),
            (-40.0, 40.0),
            [3.0, 3.0],
        ),
        function("softsign", |x, p, _| div(x, &add(&one(), &x.abs(), p), p), (-9.0, 9.0), [2.0, 2.0]),
        function("tan", |x, p, c| x.tan(p, ROUND, c), (-9.0, 9.0), [2.5, 3.0]),
        function("asin", |x, p, c| x.asin(p, ROUND, c), (-1.0, 1.0), [3.0, 3.0]),
        function("acos", |x, p, c| x.acos(p, ROUND, c), (-1.0, 1.0), [3.0, 3.0]),
        function("sinh", |x, p, c| halves(x, -1.0, p, c), (-710.0, 710.0), [5.0, 5.0]),
        function("cosh", |x, p, c| halves(x, 1.0, p, c), (-710.0, 710.0), [5.0, 5.0]),
        function(
            "asinh",
            |x, p, c| {
                let size = log(&add(&x.abs(), &root(x, 1.0, p), p), p, c);
                if x.is_negative() { size.neg() } else { size }
            },
            (-100.0, 100.0),
            [3.0, 3.0],
        ),
        function("acosh", |x, p, c| log(&add(x, &root(x, -1.0, p), p), p, c), (1.0, 9.0), [3.0, 3.0]),
        function(
            "atanh",
            |x, p, c| mul(&number(0.5), &log(&div(&add(&one(), x, p), &sub(&one(), x, p), p), p, c), p),
            (-1.0, 1.0),
            [2.0, 2.0],
        ),
    ]
}

/// Numbers between 0 and 1 that look random.
fn noise(seed: u64, count: usize) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    })
}

/// Arguments in the range of the function, of all magnitudes, as values of the type.
fn arguments(function: &Function, dtype: DType) -> Vec<f64> {
    let (low, high) = function.range;
    let (narrow, smallest) = if dtype == DType::F64 { (1.0, -1074.0) } else { (0.125, -149.0) };
    let shrink = |bound: f64| if bound.abs() > 30.0 { bound * narrow } else { bound };
    let (low, high) = (shrink(low), shrink(high));
    let spread = noise(1, 150).map(|at| low + (high - low) * at);
    let near = noise(2, 150).map(|at| low.max(-2.0) + (high.min(2.0) - low.max(-2.0)) * at);
    let small = noise(3, 30).map(|at| 2f64.powf(at * smallest)).flat_map(|x| [x, -x]);
    let large = noise(4, 30).map(|at| 2f64.powf(at * 100.0)).flat_map(|x| [x, -x]);
    let mut all: Vec<f64> = spread.chain(near).chain(small).collect();
    if matches!(function.name, "asinh" | "acosh" | "softsign" | "elu" | "softplus") {
        all.extend(large);
    }
    let values = all.into_iter().map(|x| Scalar::from_f64(dtype, x).as_f64());
    let inside = |x: &f64| match function.name {
        "acosh" => *x > 1.0,
        "asin" | "acos" | "atanh" => x.abs() < 1.0 && *x != 0.0,
        _ => *x != 0.0,
    };
    values.filter(inside).collect()
}

/// The function of many arguments, by the interpreter.
fn results(name: &str, dtype: DType, arguments: &[f64]) -> Vec<f64> {
    let [x, y] = ["x", "y"].map(|label| node(label, dtype, &[arguments.len()]));
    let program = parse(&format!("y[i] := {name}(x[i])"), &[x.clone(), y.clone()]);
    let mut machine = Machine::new(&program.unwrap_or_else(|error| panic!("{error}")));
    machine.set(&x, arguments);
    machine.run(&[]);
    machine.get(&y)
}

/// The function is exact to this many bits.
fn exact(function: &Function, x: f64, constants: &mut Consts) -> BigFloat {
    let digits = 256 + 2 * x.abs().log2().abs() as usize + 2 * x.abs().min(800.0) as usize;
    let tail = if function.name == "gelu" { (x * x) as usize } else { 0 };
    (function.exact)(&big(x), digits + tail, constants)
}

/// The document states exactly these bounds.
#[test]
fn the_document_states_these_bounds() {
    let rows = include_str!("../../../../../docs/prelude.md").lines().filter_map(|l| l.strip_prefix("| `"));
    let stated = |name: &str| -> Option<Vec<String>> {
        let mut rows = rows.clone().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        let row = rows.find(|row| row[0].trim_end_matches('`').split("`, `").any(|n| n == name))?;
        Some(row[1..3].iter().map(|cell| cell.split(' ').next().unwrap_or_default().to_owned()).collect())
    };
    for Function { name, bounds, .. } in functions() {
        assert_eq!(stated(name), Some(bounds.map(|bound| bound.to_string()).to_vec()), "{name}");
    }
}

#[test]
fn functions_keep_their_bounds() {
    let mut constants = Consts::new().expect("memory");
    let mut failures = Vec::new();
    for function in functions() {
        for (dtype, bound) in [DType::F32, DType::F64].into_iter().zip(function.bounds) {
            let arguments = arguments(&function, dtype);
            let mut worst = (0.0, 0.0, 0.0);
            for (&x, found) in arguments.iter().zip(results(function.name, dtype, &arguments)) {
                let distance = ulps(found, &exact(&function, x, &mut constants), Format::of(dtype));
                let allowed = bound + if x < 0.0 { (function.tail)(-x) } else { 0.0 };
                if distance / allowed > worst.0 {
                    worst = (distance / allowed, distance, x);
                }
            }
            let (ratio, distance, at) = worst;
            println!("{} {dtype}: {distance:.2} ulp, {ratio:.2} of the bound, at {at:e}", function.name);
            if ratio > 1.0 {
                failures.push(format!("{} {dtype}: {distance:.2} ulp at {at:e}", function.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The whole function is computed in `f32`, and rounded once.
#[test]
fn narrow_functions_are_rounded_once() {
    for dtype in [DType::F16, DType::Bf16] {
        let patterns = (0..1u128 << 16).step_by(37).map(|bits| Scalar::new(dtype, bits).as_f64());
        let arguments: Vec<f64> = patterns.filter(|x| x.is_finite()).collect();
        for function in functions() {
            let wide = results(function.name, DType::F64, &arguments);
            let found = results(function.name, dtype, &arguments);
            for ((x, truth), found) in arguments.iter().zip(wide).zip(found) {
                let distance = ulps_from(found, truth, Format::of(dtype));
                assert!(distance <= 0.51, "{} {dtype} at {x:e}: {found:e}, {truth:e}", function.name);
            }
        }
    }
}
