//! Derivatives where the formula of a function changes, and where its derivative is infinite or vanishes: by
//! torch's conventions, in `f32` and `f64`.

use tnode::{DType, TensorNode};

use crate::support::{Input, gradient_at};

const INF: f64 = f64::INFINITY;
/// 2/√π
const ERF: f64 = std::f64::consts::FRAC_2_SQRT_PI;
const SCALE: f64 = 1.0507009873554805;
const ALPHA: f64 = 1.6732632423543772;

/// An expression of `x`, and its derivative at some points.
type Row = (&'static str, &'static [(f64, f64)]);

const ROWS: &[Row] = &[
    ("abs(x)", &[(0.0, 0.0), (-0.0, 0.0), (-1.0, -1.0), (1.0, 1.0)]),
    ("relu(x)", &[(0.0, 0.0), (-0.0, 0.0), (2.0, 1.0)]),
    ("satur01(x)", &[(0.0, 0.0), (1.0, 0.0), (0.5, 1.0)]),
    ("max(x, 1)", &[(1.0, 0.5)]),
    ("min(x, 1)", &[(1.0, 0.5)]),
    ("sqrt(x)", &[(0.0, INF), (4.0, 0.25)]),
    ("pow(x, 2)", &[(0.0, 0.0)]),
    ("pow(x, 1)", &[(0.0, 1.0)]),
    ("pow(x, 0)", &[(0.0, 0.0)]),
    ("erf(x)", &[(0.0, ERF), (-0.0, ERF), (0.875, 0.5247450452901482), (-0.875, 0.5247450452901482)]),
    ("erfc(x)", &[(0.0, -ERF), (-0.0, -ERF), (5.0, -1.567086653186713e-11)]),
    ("expm1(x)", &[(0.0, 1.0), (-20.0, 2.061153622438558e-9)]),
    ("log1p(x)", &[(0.0, 1.0), (-1.0, INF)]),
    ("atan(x)", &[(0.0, 1.0), (1.0, 0.5), (-1.0, 0.5), (1e300, 0.0), (INF, 0.0)]),
    ("tanh(x)", &[(0.0, 1.0), (100.0, 0.0)]),
    ("sigmoid(x)", &[(0.0, 0.25), (-0.0, 0.25), (-20.0, 2.0611536139418e-9), (-1e3, 0.0), (1e3, 0.0)]),
    ("log_sigmoid(x)", &[(0.0, 0.5), (-0.0, 0.5), (-1e3, 1.0), (1e3, 0.0), (20.0, 2.0611536181902e-9)]),
    ("softplus(x)", &[(0.0, 0.5), (-0.0, 0.5), (-1e3, 0.0), (1e3, 1.0), (-20.0, 2.0611536181902e-9)]),
    ("silu(x)", &[(0.0, 0.5), (-0.0, 0.5), (-1e3, 0.0), (1e3, 1.0)]),
    ("mish(x)", &[(0.0, 0.6), (-0.0, 0.6), (-1e3, 0.0), (1e3, 1.0)]),
    ("gelu(x)", &[(0.0, 0.5), (-0.0, 0.5), (-1e3, 0.0), (1e3, 1.0), (-10.0, -7.618400096464813e-22)]),
    ("gelu_tanh(x)", &[(0.0, 0.5), (-0.0, 0.5), (-1e3, 0.0), (1e3, 1.0)]),
    ("elu(x)", &[(0.0, 1.0), (-0.0, 1.0), (1e3, 1.0), (-1e3, 0.0), (-20.0, 2.061153622438558e-9)]),
    ("elu(x, 2)", &[(0.0, 2.0), (-0.0, 2.0), (1e-30, 1.0)]),
    ("celu(x, 2)", &[(0.0, 1.0), (-0.0, 1.0), (1e3, 1.0), (-1e4, 0.0)]),
    ("selu(x)", &[(0.0, SCALE * ALPHA), (-0.0, SCALE * ALPHA), (1e3, SCALE), (-1e4, 0.0)]),
    ("hard_sigmoid(x)", &[(-3.0, 0.0), (3.0, 0.0), (0.0, 1.0 / 6.0)]),
    ("hard_swish(x)", &[(-3.0, 0.0), (3.0, 1.0), (0.0, 0.5), (-4.0, 0.0), (4.0, 1.0)]),
    ("softsign(x)", &[(0.0, 1.0), (-0.0, 1.0), (1.0, 0.25), (-1.0, 0.25)]),
    ("tan(x)", &[(0.0, 1.0)]),
    ("asin(x)", &[(0.0, 1.0), (-0.0, 1.0), (1.0, INF), (-1.0, INF)]),
    ("acos(x)", &[(0.0, -1.0), (-0.0, -1.0), (1.0, -INF), (-1.0, -INF)]),
    ("sinh(x)", &[(0.0, 1.0), (-0.0, 1.0), (200.0, INF), (-200.0, INF), (1e30, INF), (-INF, INF)]),
    ("cosh(x)", &[(0.0, 0.0), (-0.0, 0.0), (200.0, INF), (-200.0, -INF), (1e30, INF), (-INF, -INF)]),
    ("asinh(x)", &[(0.0, 1.0), (-0.0, 1.0), (1e10, 1e-10), (-1e10, 1e-10), (1e30, 1e-30), (-1e30, 1e-30)]),
    ("acosh(x)", &[(1.0, INF), (1e10, 1e-10), (1e30, 1e-30)]),
    ("atanh(x)", &[(0.0, 1.0), (-0.0, 1.0), (1.0, INF), (-1.0, INF)]),
];

#[test]
fn derivatives_at_seams_are_those_of_torch() {
    let mut failures = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-9 };
        for (function, points) in ROWS {
            let node = TensorNode::builder("x").dims([points.len()]).dtype(dtype).build().expect("small");
            let input = Input { node, values: points.iter().map(|(x, _)| *x).collect() };
            let text = format!("y[i] := {}\nloss :+= y[i]", function.replace("(x", "(x[i]"));
            for ((x, expected), found) in points.iter().zip(gradient_at(&text, &input)) {
                let is_close = (found - expected).abs() <= tolerance * expected.abs() || found == *expected;
                if !is_close {
                    failures.push(format!("{function} {dtype} at {x:e}: {found:e}, expected {expected:e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
