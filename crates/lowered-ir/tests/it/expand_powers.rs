//! Powers as products: the bits of integers, the error of floats, and what they cost.

use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{BinaryOp, Expr, LoweredRoutine, walk};
use lowered_ir::passes::OptimizeSettings;
use lowered_ir::passes::expand_powers::expand_powers;
use lowered_ir::{text, verify};
use tnode::{DType, Scalar};

/// `y[i] := pow(x[i] op 0, n)` over the values.
fn routine(class: &str, dtype: DType, len: usize, base: &str, exponent: Scalar) -> LoweredRoutine {
    let constant = format!("{:#0width$x}:{dtype}", exponent.bits(), width = 2 + 2 * dtype.size_bytes());
    let source = format!(
        "routine @p {class} {{\nnode %0 \"x\" {dtype}[{len}] on_device\nnode %1 \"y\" {dtype}[{len}] on_device\n\
         for i0 in 0..{len} {{ %1[i0] := pow({base}, {constant}) }}\n}}"
    );
    let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify::verify(&routine).unwrap_or_else(|e| panic!("{e}\n{source}"));
    routine
}

fn run(routine: &LoweredRoutine, values: &[Scalar]) -> Vec<Scalar> {
    verify::verify(routine).unwrap_or_else(|e| panic!("{e}\n{}", text::print(routine)));
    let mut memory = Memory::zeroed(routine);
    let size = values[0].dtype().size_bytes();
    for (value, bytes) in values.iter().zip(memory.nodes[0].chunks_exact_mut(size)) {
        value.write(bytes).expect("as many bytes as elements");
    }
    interp::run(routine, &mut memory, &[]).unwrap_or_else(|e| panic!("{e}"));
    let results = memory.nodes[1].chunks_exact(size);
    results.map(|bytes| Scalar::read(values[0].dtype(), bytes).expect("whole elements")).collect()
}

fn count(routine: &LoweredRoutine, op: BinaryOp) -> usize {
    walk::parts_in(&routine.body)
        .filter(|part| matches!(part, Expr::Binary { op: o, .. } if *o == op))
        .count()
}

#[test]
fn integer_powers_keep_every_bit() {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_integer()) {
        let top = 1u128 << (8 * dtype.size_bytes() - 1);
        let numbers = [0, 1, 2, 3, 5, 7, 10, -1, -2, -3].map(|x| Scalar::from_i64(dtype, x));
        let ends = [top, top - 1, 2 * top - 1].map(|bits| Scalar::new(dtype, bits));
        let values: Vec<Scalar> = numbers.into_iter().chain(ends).collect();
        let small = (-9..20).chain([31, 33, 64, 100, 127]).map(|n| Scalar::from_i64(dtype, n));
        for exponent in small.chain(ends) {
            let before = routine("strict", dtype, values.len(), "%0[i0]", exponent);
            let mut after = before.clone();
            expand_powers(&mut after, &OptimizeSettings::default());
            assert_eq!(run(&after, &values), run(&before, &values), "{dtype} to the power of {exponent}");
            let kept = count(&after, BinaryOp::Pow) == 1;
            assert_eq!(kept, exponent.bits() < 2, "{}", text::print(&after));
        }
    }
}

#[test]
fn the_cost_is_logarithmic() {
    for (exponent, most) in [(7, 4), (8, 3), (1000, 14), (1 << 30, 30), (i64::from(i32::MAX), 60)] {
        for base in ["%0[i0]", "%0[i0] + 1i32"] {
            let mut expanded = routine("strict", DType::I32, 2, base, Scalar::from_i64(DType::I32, exponent));
            expand_powers(&mut expanded, &OptimizeSettings::default());
            assert!(count(&expanded, BinaryOp::Mul) <= most, "{}", text::print(&expanded));
        }
    }
}

/// The greatest relative error of `x^n` over some values of the type, in units of the last place.
fn error(dtype: DType, n: i32, settings: &OptimizeSettings) -> f64 {
    let values: Vec<Scalar> = (0..2000)
        .map(|i| Scalar::from_f64(dtype, (0.5 + f64::from(i) * 0.00173) * [1.0, -1.0][i as usize % 2]))
        .collect();
    let mut after = routine("fast", dtype, values.len(), "%0[i0]", Scalar::from_f64(dtype, f64::from(n)));
    expand_powers(&mut after, settings);
    assert_eq!(count(&after, BinaryOp::Pow), 0, "{}", text::print(&after));
    let results = run(&after, &values);
    let unit = if dtype == DType::F32 { (-23f64).exp2() } else { (-10f64).exp2() };
    let errors = values.iter().zip(results).map(|(x, y)| {
        let exact = x.as_f64().powi(n);
        ((y.as_f64() - exact) / exact).abs() / unit
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn float_powers_are_within_the_documented_error() {
    let usual = OptimizeSettings::default();
    assert_eq!(usual.integer_pow, 4);
    let far = OptimizeSettings { integer_pow: 16, ..OptimizeSettings::default() };
    for n in [2, 3, 4] {
        assert!(error(DType::F32, n, &usual) <= 0.5 * f64::from(n));
        assert!(error(DType::F32, -n, &usual) <= 0.5 * f64::from(n + 1));
        // Computed in f32 and rounded once.
        assert!(error(DType::F16, n, &usual) <= 0.501);
    }
    assert!(error(DType::F32, 16, &far) <= 8.0);
}

#[test]
fn float_powers_beyond_the_setting_or_strict_are_kept() {
    let kept = |class: &str, n: f64, settings: &OptimizeSettings| {
        let mut after = routine(class, DType::F32, 4, "%0[i0]", Scalar::from_f64(DType::F32, n));
        expand_powers(&mut after, settings);
        count(&after, BinaryOp::Pow) == 1
    };
    let usual = OptimizeSettings::default();
    let never = OptimizeSettings { integer_pow: 0, ..OptimizeSettings::default() };
    assert!(!kept("fast", 4.0, &usual) && !kept("fast", -4.0, &usual));
    assert!(kept("fast", 5.0, &usual) && kept("fast", -5.0, &usual));
    assert!(
        kept("fast", 2.5, &usual) && kept("fast", f64::INFINITY, &usual) && kept("fast", f64::NAN, &usual)
    );
    assert!(kept("fast", 2.0, &never));
    assert!(kept("strict", 2.0, &usual));
}
