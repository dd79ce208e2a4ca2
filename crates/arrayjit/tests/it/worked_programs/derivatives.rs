//! A scalar expression with its derivatives, worked by hand.
//!
//! With `c = 2(2(a + b) + 1) + 1 − a`, `d = 4(3(ab + b³) + relu(a + b)) + relu(b − a)` and `e = c − d`, let
//! `g = e²/2 + 10/e²`. At `a = −4`, `b = 2`: `c = −1`, `d = 6`, `e = −7`, so `g = 24.5 + 10/49`.
//!
//! * `dg/de = e − 20/e³ = −7 + 20/343`.
//! * `dc/da = 4 − 1 = 3`, `dc/db = 4`.
//! * `a + b < 0` and `b − a > 0`, so `dd/da = 12b − 1 = 23` and `dd/db = 12(a + 3b²) + 1 = 97`.
//! * Hence `dg/da = −20·dg/de` and `dg/db = −93·dg/de`.

use arrayjit::DType;

use crate::worked_programs::program::WorkedProgram;

/// Computes forward, then backward through every intermediate value; a value that is used twice gets two
/// contributions.
const TEXT: &str = "
    c0 := a + b
    c1 := 2 * c0 + 1
    c2 := 2 * c1 + 1 - a
    d0 := a * b + pow(b, 3)
    d1 := 3 * d0 + relu(b + a)
    d2 := 4 * d1 + relu(b - a)
    e := c2 - d2
    f := e * e
    g := f / 2 + 10 / f

    gf := 0.5 - 10 / (f * f)
    ge := 2 * e * gf
    gc2 := ge
    gd2 := -ge
    gd1 := 4 * gd2
    gd0 := 3 * gd1
    gc1 := 2 * gc2
    gc0 := 2 * gc1
    ga := gc0 - gc2
    ga += b * gd0
    ga += relu_gate(b + a, gd1)
    ga -= relu_gate(b - a, gd2)
    gb := gc0
    gb += (a + 3 * b * b) * gd0
    gb += relu_gate(b + a, gd1)
    gb += relu_gate(b - a, gd2)
";

#[test]
fn a_scalar_expression_and_its_derivatives() {
    let slope = -7.0 + 20.0 / 343.0;
    for (dtype, tolerance) in [(DType::F64, 1e-14), (DType::F32, 1e-6)] {
        let mut program =
            WorkedProgram::new(TEXT).given("a", dtype, &[], &[-4.0]).given("b", dtype, &[], &[2.0]);
        for name in ["c0", "c1", "c2", "d0", "d1", "d2", "e", "f"] {
            program = program.inner(name, dtype, &[]);
        }
        for name in ["gf", "ge", "gc0", "gc1", "gc2", "gd0", "gd1", "gd2"] {
            program = program.inner(name, dtype, &[]);
        }
        let program = program.kept("g", dtype, &[]).kept("ga", dtype, &[]).kept("gb", dtype, &[]);
        for outcome in program.run() {
            outcome.expect("g", &[24.5 + 10.0 / 49.0], tolerance);
            outcome.expect("ga", &[-20.0 * slope], tolerance);
            outcome.expect("gb", &[-93.0 * slope], tolerance);
        }
    }
}
