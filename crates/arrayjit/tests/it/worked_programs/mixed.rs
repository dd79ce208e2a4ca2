//! Several precisions in one program: narrow data with wide sums, and operands of different types in one
//! statement.

use arrayjit::DType::{self, Bf16, Bool, F16, F32, F64, Fp8E4m3fn, Fp8E5m2, I32, I64, U8};
use arrayjit::HostArray;

use crate::worked_programs::program::{WorkedProgram, expect, numbers};

/// The values after rounding to the type.
fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    let mut array = HostArray::zeros(dtype, [values.len()]).unwrap();
    array.set_values(values).unwrap();
    array.values()
}

/// Sums 4096 ones of each narrow type in `f32`, and converts the sum to `f16`; both are exact.
#[test]
fn sums_of_narrow_data_are_as_wide_as_their_target() {
    for dtype in [F16, Bf16, Fp8E5m2, Fp8E4m3fn] {
        let program = WorkedProgram::new("wide :+= x[i]\n back := wide")
            .given("x", dtype, &[4096], &[1.0; 4096])
            .kept("wide", F32, &[])
            .kept("back", F16, &[]);
        for outcome in program.run() {
            outcome.expect("wide", &[4096.0], 0.0);
            outcome.expect("back", &[4096.0], 0.0);
        }
    }
}

/// Sums in a narrow target are rounded after every addition. Adding ones to 2048 in `f16` has no effect: 1 is
/// half a unit in the last place, and the tie goes to the even 2048. In `bf16` the same happens at 256.
#[test]
fn narrow_sums_round_after_every_addition() {
    for (dtype, start) in [(F16, 2048.0), (Bf16, 256.0)] {
        let program = WorkedProgram::new("y[j] += x[i,j]")
            .given("x", dtype, &[10, 4], &[1.0; 40])
            .given("y", dtype, &[4], &[start, -start, start / 2.0, 0.0])
            .strict();
        expect(&program, "y", &[start, 10.0 - start, start / 2.0 + 10.0, 10.0], 0.0);
    }
}

/// Products of `f16` are exact in `f32`, and here their sums are too: the result is exact, and is rounded to
/// `f16` once.
#[test]
fn a_matrix_product_of_halves_accumulates_in_single() {
    let (n, k) = (6, 96);
    for dtype in [F16, Bf16] {
        let [a, b] = [13, 14].map(|seed| rounded(dtype, &numbers(seed, n * k)));
        let exact: Vec<f64> =
            (0..n * n).map(|at| (0..k).map(|l| a[at / n * k + l] * b[at % n * k + l]).sum()).collect();
        let program = WorkedProgram::new("c[i,j] :+= f32(a[i,l]) * f32(b[j,l])\n r[i,j] := c[i,j]")
            .given("a", dtype, &[n, k], &a)
            .given("b", dtype, &[n, k], &b)
            .kept("c", F32, &[n, n])
            .kept("r", dtype, &[n, n]);
        for outcome in program.run() {
            outcome.expect("c", &exact, 0.0);
            outcome.expect("r", &rounded(dtype, &exact), 0.0);
        }
    }
}

/// Operands of different types are promoted, the operation computes there, and its result is converted to the
/// target.
#[test]
fn operands_of_different_types() {
    let (h, s, n, u) = ([1.5, -2.25, 3.0], [0.1, 1e6, -7.5], [3.0, -4.0, 100_000.0], [200.0, 1.0, 0.0]);
    let text = "
        hs[i] := h[i] * s[i]
        hn[i] := h[i] + n[i]
        un[i] := u[i] - n[i]
        uh[i] := u[i] * h[i]
        less[i] := h[i] < n[i]
        picked[i] := where(u[i] > 0, h[i], n[i])
        long[i] := n[i] * l[i]
        fused[i] := fma(h[i], h[i], s[i])
    ";
    let program = WorkedProgram::new(text)
        .given("h", F16, &[3], &h)
        .given("s", F32, &[3], &s)
        .given("n", I32, &[3], &n)
        .given("l", I64, &[3], &[1e5; 3])
        .given("u", U8, &[3], &u)
        .kept("hs", F32, &[3])
        .kept("hn", F32, &[3])
        .kept("un", I32, &[3])
        .kept("uh", F16, &[3])
        .kept("less", Bool, &[3])
        .kept("picked", F32, &[3])
        .kept("long", I64, &[3])
        .kept("fused", F64, &[3]);
    let single = |x: f64| f64::from(x as f32);
    for outcome in program.run() {
        // f16 · f32 is f32.
        outcome.expect("hs", &[0, 1, 2].map(|i| single(h[i] * single(s[i]))), 0.0);
        // f16 + i32 is f16, where 100,000 overflows to infinity.
        outcome.expect("hn", &[4.5, -6.25, f64::INFINITY], 0.0);
        // u8 − i32 is i32.
        outcome.expect("un", &[197.0, 5.0, -100_000.0], 0.0);
        outcome.expect("uh", &[300.0, -2.25, 0.0], 0.0);
        outcome.expect("less", &[1.0, 0.0, 1.0], 0.0);
        outcome.expect("picked", &[1.5, -2.25, f64::INFINITY], 0.0);
        // i32 · i64 is i64, which can represent the products.
        outcome.expect("long", &[3e5, -4e5, 1e10], 0.0);
        outcome.expect("fused", &[0, 1, 2].map(|i| single(h[i] * h[i] + single(s[i]))), 0.0);
    }
}

/// Conversion functions round, saturate, and convert to truth values.
#[test]
fn conversions_in_a_program() {
    let x = [300.7, -1.5, 65520.0, f64::NAN, 0.0, 464.0, 1e-8];
    let text = "
        a[i] := u8(x[i])
        b[i] := f16(x[i])
        c[i] := fp8_e4m3fn(x[i])
        d[i] := bool(x[i])
        e[i] := i64(x[i])
        f[i] := fp8_e5m2(x[i])
    ";
    let program = WorkedProgram::new(text)
        .given("x", F32, &[7], &x)
        .kept("a", U8, &[7])
        .kept("b", F16, &[7])
        .kept("c", Fp8E4m3fn, &[7])
        .kept("d", Bool, &[7])
        .kept("e", I64, &[7])
        .kept("f", Fp8E5m2, &[7]);
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for outcome in program.run() {
        outcome.expect("a", &[255.0, 0.0, 255.0, 0.0, 0.0, 255.0, 0.0], 0.0);
        outcome.expect("b", &[300.75, -1.5, inf, nan, 0.0, 464.0, 0.0], 0.0);
        outcome.expect("c", &[288.0, -1.5, nan, nan, 0.0, 448.0, 0.0], 0.0);
        outcome.expect("d", &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0], 0.0);
        outcome.expect("e", &[300.0, -1.0, 65520.0, 0.0, 0.0, 464.0, 0.0], 0.0);
        outcome.expect("f", &[320.0, -1.5, inf, nan, 0.0, 448.0, 0.0], 0.0);
    }
}

/// A node accumulates in its own type, although the terms have another.
#[test]
fn a_target_of_another_type_accumulates_in_its_own() {
    // 0.5 truncates to 0 before each addition.
    let program = WorkedProgram::new("n :+= x[i]\n m :+= x[i] * 2")
        .given("x", F32, &[4], &[0.5, 1.5, 2.5, -0.5])
        .kept("n", I32, &[])
        .kept("m", I32, &[]);
    for outcome in program.run() {
        outcome.expect("n", &[3.0], 0.0);
        outcome.expect("m", &[8.0], 0.0);
    }
}

/// Truth values accumulate too: their maximum is whether any of them holds, their minimum whether all of them
/// do.
#[test]
fn truth_values_accumulate() {
    for (x, any, all) in
        [([1.0, 2.0, 3.0], 1.0, 0.0), ([1.0, 2.0, 2.0], 0.0, 0.0), ([3.0, 4.0, 5.0], 1.0, 1.0)]
    {
        let text = "
            any :or= x[i] > 2
            all :and= x[i] > 2
            greatest :max= x[i] > 2
            least :min= x[i] > 2
        ";
        let mut program = WorkedProgram::new(text).given("x", F32, &[3], &x);
        for name in ["any", "all", "greatest", "least"] {
            program = program.kept(name, Bool, &[]);
        }
        for outcome in program.run() {
            for (name, expected) in [("any", any), ("all", all), ("greatest", any), ("least", all)] {
                outcome.expect(name, &[expected], 0.0);
            }
        }
    }
}
