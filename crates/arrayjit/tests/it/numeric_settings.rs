//! The numeric settings change the generated code: fused products, powers, algebraic rewrites, large 16-bit
//! constants. One-hot sums, which are compiled to gathers, give the same results on every backend.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::settings::NumericClass;
use arrayjit::{Backend, CompileError, DType, HostArray, MemoryMode, OptimizeSettings, Settings, TensorNode};

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let builder = TensorNode::builder(name).dtype(dtype).dims(dims.iter().copied());
    builder.mode(MemoryMode::Materialized).build().unwrap()
}

/// Runs the text on the inputs and returns the values of `y`.
fn run(
    backend: &Backend,
    text: &str,
    inputs: &[(&TensorNode, HostArray)],
    y: &TensorNode,
) -> Result<Vec<f64>, CompileError> {
    let nodes = inputs.iter().map(|(node, _)| *node).chain([y]);
    let compiled = backend.compile(text, nodes)?;
    let mut context = backend.context().unwrap();
    for (node, values) in inputs {
        context = context.init_from_host(node, values).unwrap();
    }
    let routine = compiled.link(&context).unwrap();
    routine.run(&[]).unwrap();
    Ok(routine.context().to_host(y).unwrap().values())
}

/// Runs `text` on every backend, with `value` in each of the four `f32` elements of `x`, and returns the
/// first element of `y`.
fn one(settings: &Settings, optimizer: OptimizeSettings, text: &str, value: f32) -> f64 {
    let values = || HostArray::from_slice(&[value; 4], [4]).unwrap();
    let results = BACKENDS.map(|name| {
        let (x, y) = (node("x", DType::F32, &[4]), node("y", DType::F32, &[4]));
        let backend = Backend::open_with(name, settings).unwrap().with_optimizer(optimizer.clone());
        run(&backend, text, &[(&x, values())], &y).unwrap()[0]
    });
    assert!(results.iter().all(|r| r.to_bits() == results[0].to_bits()), "{text}: {results:?}");
    results[0]
}

/// [`one`] in a numeric class.
fn in_class(numerics: NumericClass, text: &str, value: f32) -> f64 {
    let mut settings = Settings::default();
    settings.numerics = numerics;
    one(&settings, settings.optimizer(), text, value)
}

#[test]
fn the_class_decides_how_often_a_sum_of_products_is_rounded() {
    // (1 + 2⁻¹²)² - 1 is 2⁻¹¹ + 2⁻²⁴; the product rounded by itself loses the last bit.
    let (rounded, fused) = ((-11f64).exp2(), (-11f64).exp2() + (-24f64).exp2());
    let found = |class| in_class(class, "y[i] := x[i] * x[i] - 1", 1.0 + (-12f32).exp2());
    assert_eq!(
        [NumericClass::Strict, NumericClass::Fast, NumericClass::Real].map(found),
        [rounded, fused, fused]
    );
}

#[test]
fn the_equations_of_reals_are_asked_for() {
    let found = |class| in_class(class, "y[i] := (x[i] + 1e9) - 1e9", 1.0);
    assert_eq!([NumericClass::Strict, NumericClass::Fast, NumericClass::Real].map(found), [0.0, 0.0, 1.0]);
}

#[test]
fn small_powers_are_products() {
    let value = 1.1f32;
    let settings = Settings::default();
    let found = |optimizer, text| one(&settings, optimizer, text, value);
    let product = f64::from(value * value * value);
    assert_eq!(found(settings.optimizer(), "y[i] := pow(x[i], 3)"), product);
    let quotient = f64::from(1.0 / (value * value * value));
    assert_eq!(found(settings.optimizer(), "y[i] := pow(x[i], -3)"), quotient);
    let squares = OptimizeSettings { integer_pow: 2, ..settings.optimizer() };
    assert!((found(squares, "y[i] := pow(x[i], 3)") - product).abs() < 3e-7);
}

#[test]
fn large_halves_are_rejected_where_the_setting_says() {
    let compiled = |cutoff: f64| {
        let mut settings = Settings::default();
        settings.half_constant_cutoff = cutoff;
        let (x, y) = (node("x", DType::F16, &[2]), node("y", DType::F16, &[2]));
        let zeros = HostArray::zeros(DType::F16, [2]).unwrap();
        let backend = Backend::open_with("inline", &settings).unwrap();
        run(&backend, "y[i] := x[i] + 20000", &[(&x, zeros)], &y)
    };
    let error = compiled(16384.0).unwrap_err();
    assert!(error.to_string().contains("the constant 20000 of type f16"), "{error}");
    assert!(error.to_string().ends_with("\n1 | y[i] := x[i] + 20000\n  | ^^^^"), "{error}");
    assert!(matches!(error, CompileError::Optimize { .. }));
    assert_eq!(compiled(20001.0).unwrap(), [20000.0, 20000.0]);
    assert_eq!(compiled(0.0).unwrap(), [20000.0, 20000.0]);
}

#[test]
fn one_hot_sums_read_rows_on_every_backend() {
    for numerics in [NumericClass::Fast, NumericClass::Strict] {
        for text in
            ["y[b,j] :+= (k == label[b]) * table[k,j]", "y[b,j] :+= where(k == label[b], table[k,j], 0)"]
        {
            for backend in BACKENDS {
                let mut settings = Settings::default();
                settings.numerics = numerics;
                let (table, label) = (node("table", DType::F32, &[5, 7]), node("label", DType::F32, &[4]));
                let y = node("y", DType::F32, &[4, 7]);
                let rows: Vec<f32> = (0..35u8).map(f32::from).collect();
                let inputs = [
                    (&table, HostArray::from_slice(&rows, [5, 7]).unwrap()),
                    (&label, HostArray::from_slice(&[4.0f32, 0.0, 2.5, -1.0], [4]).unwrap()),
                ];
                let opened = Backend::open_with(backend, &settings).unwrap();
                let found = run(&opened, text, &inputs, &y).unwrap();
                let expected: Vec<f64> = (28..35).chain(0..7).map(f64::from).chain([0.0; 14]).collect();
                assert_eq!(found, expected, "{text} on {backend}");
            }
        }
    }
}
