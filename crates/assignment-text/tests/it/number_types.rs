//! The types that numbers take next to other values, and numbers that a type cannot represent.

use crate::program;

use assignment_text::parse;
use program::{Machine, node};
use tnode::{DType, TensorNode};

/// The values that `y[i] := value` stores in a node of type `dtype`. Node `n` holds 1, 2, 7 in `i32`, and `g`
/// a tenth of these in `f32`.
fn stored(dtype: DType, value: &str) -> Vec<f64> {
    let nodes = [node("y", dtype, &[3]), node("n", DType::I32, &[3]), node("g", DType::F32, &[3])];
    let program = parse(&format!("y[i] := {value}"), &nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&program);
    for (node, values) in [(&nodes[1], [1., 2., 7.]), (&nodes[2], [0.1, 0.2, 0.7])] {
        if machine.lowered.nodes.contains(node) {
            machine.set(node, &values);
        }
    }
    machine.run(&[]);
    machine.get(&nodes[0])
}

#[test]
fn a_fraction_next_to_integers_is_of_the_type_written() {
    let (exact, single) = ([1. / 3., 2. / 3., 7. / 3.], [1f32 / 3., 2. / 3., 7. / 3.].map(f64::from));
    assert_eq!(stored(DType::F64, "n[i] / 3.0"), exact);
    assert_eq!(stored(DType::F32, "n[i] / 3.0"), single);
    assert_eq!(stored(DType::F64, "i / 3.0"), [0., 1. / 3., 2. / 3.]);
    assert_eq!(stored(DType::F64, "(1 + i) * 0.1"), [0.1, 0.2, 3. * 0.1]);
    assert_eq!(stored(DType::F64, "1 / (2.0 + i)"), [1. / 2., 1. / 3., 1. / 4.]);
    assert_eq!(stored(DType::F64, "size(i) / 7.0"), [3. / 7.; 3]);
    assert_eq!(stored(DType::F64, "where(i < 1, i, 0.1)"), [0., 0.1, 0.1]);
    assert_eq!(stored(DType::F64, "fma(i, n[i], 0.1)"), [0.1, 2.1, 14.1]);
    // The same holds within a larger expression and in a comparison.
    assert_eq!(stored(DType::F64, "1 + 2 * (n[i] / 3.0)"), exact.map(|x| 1. + 2. * x));
    assert_eq!(stored(DType::F64, "g[i] * (n[i] / 3.0)")[0], f64::from(0.1f32) * (1. / 3.));
    let third = format!("{:?}", 1. / 3.);
    assert_eq!(stored(DType::F64, &format!("n[i] / 3.0 == {third}")), [1., 0., 0.]);
    // The division computes in `f32` at least. In `f16`, rounding `n[i] / 3000` would change the result.
    assert_eq!(stored(DType::F16, "3000 * (n[i] / 3000.0)"), [1., 2., 7.]);
    assert_eq!(stored(DType::I32, "n[i] * 1.5"), [1., 3., 10.]);
}

#[test]
fn functions_take_integers_as_floats_of_the_type_written() {
    let exact = |f: fn(f64) -> f64| [1., 2., 7.].map(f);
    for (text, expected) in [("exp(n[i])", exact(f64::exp)), ("sqrt(n[i])", exact(f64::sqrt))] {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-14 * b;
        let found = stored(DType::F64, text);
        assert!(found.iter().zip(&expected).all(close), "{text}: {found:?}");
    }
    assert_eq!(stored(DType::F64, "sqrt(i)"), [0., 1., 2f64.sqrt()]);
    assert_eq!(stored(DType::F32, "sqrt(i)")[2], f64::from(2f32.sqrt()));
}

#[test]
fn operations_on_integers_and_on_other_floats_stay_as_they_are() {
    assert_eq!(stored(DType::F64, "n[i] / 2"), [0., 1., 3.]);
    assert_eq!(stored(DType::F64, "i / 2"), [0., 0., 1.]);
    assert_eq!(stored(DType::F64, "1 / 2"), [0.5; 3]);
    assert_eq!(stored(DType::F64, "g[i] / 3.0")[0], f64::from(0.1f32 / 3.0));
    assert_eq!(stored(DType::F64, "f32(n[i] / 3.0)")[0], f64::from(1f32 / 3.0));
    assert_eq!(
        stored(DType::F32, "f64(n[i] / 3.0) - 0.3333333432674408")[0],
        f64::from((1. / 3. - 0.3333333432674408) as f32)
    );
}

/// Integers are exact, whatever the type.
#[test]
fn integers_keep_every_digit() {
    let one = |dtype: DType, text: &str| {
        let y = node("y", dtype, &[]);
        let program = parse(text, std::slice::from_ref(&y)).unwrap_or_else(|error| panic!("{error}"));
        let mut machine = Machine::new(&program);
        machine.run(&[]);
        let bytes = &machine.memory.nodes[0];
        tnode::Scalar::read(dtype, bytes).expect("one element").to_string()
    };
    assert_eq!(one(DType::U64, "y := 18446744073709551615"), "18446744073709551615");
    assert_eq!(one(DType::I64, "y := -9223372036854775808"), "-9223372036854775808");
    assert_eq!(one(DType::U64, "y := bits(18446744073709551615)"), "18446744073709551615");
    assert_eq!(one(DType::U64, "y := values(9007199254740992)"), "9007199254740992");
}

fn rejected(dtype: DType, text: &str) -> (String, usize) {
    let nodes: Vec<TensorNode> =
        vec![node("y", dtype, &[2]), node("x", dtype, &[2]), node("n", DType::I32, &[2])];
    let error = parse(text, &nodes).map(|_| ()).expect_err(text);
    (error.to_string().lines().next().expect("a message").to_owned(), error.column())
}

/// A number that its type cannot represent is an error at the position of the number, and the message names
/// the type.
#[test]
fn numbers_beyond_their_type() {
    for (dtype, text, value, of) in [
        (DType::F64, "y[i] := 1e400", "1e400", "f64"),
        (DType::F64, "y[i] := x[i] * -1e400", "-1e400", "f64"),
        (DType::F64, "y[i] := pad(x, 1e400)[i]", "1e400", "f64"),
        (DType::F64, "y[i] := n[i] * 1e400", "1e400", "f64"),
        (DType::F32, "y[i] := 1e400", "1e400", "f32"),
        (DType::F32, "y[i] := x[i] + 1e39", "1e39", "f32"),
        (DType::F32, "y[i] := n[i] + 1e39", "1e39", "f32"),
        (DType::F32, "y[i] := pad(x, -1e39)[i + 1]", "-1e39", "f32"),
        (DType::F32, "y := values(1, 1e39)", "1e39", "f32"),
        (DType::F16, "y[i] := 70000", "70000", "f16"),
        (DType::F16, "y[i] := x[i] + 7e4", "7e4", "f16"),
        (DType::Bf16, "y[i] := 1e39", "1e39", "bf16"),
        (DType::Fp8E4m3fn, "y[i] := 500.0", "500.0", "fp8_e4m3fn"),
        (DType::Fp8E5m2, "y[i] := pad(x, 1e6)[i]", "1e6", "fp8_e5m2"),
        (DType::I64, "y[i] := 9223372036854775808", "9223372036854775808", "i64"),
        (DType::U64, "y[i] := 18446744073709551616", "18446744073709551616", "u64"),
        (DType::U64, "y[i] := -1", "-1", "u64"),
        (DType::I32, "y := values(1, 0.5)", "0.5", "i32"),
        (DType::U8, "y := values(1, 300)", "300", "u8"),
        (DType::U8, "y := values(inf, 1)", "inf", "u8"),
        (DType::Bool, "y := bits(2)", "0x2", "bool"),
        (DType::F32, "y := uniform(18446744073709551616)", "18446744073709551616", "u64"),
    ] {
        let (message, column) = rejected(dtype, text);
        let at = text.find(value).or(text.find('2')).expect("the number is in the text") + 1;
        assert_eq!(message, format!("line 1, column {at}: {value} is out of the range of {of}"), "{text}");
        assert_eq!(column, at);
    }
    let (message, _) = rejected(DType::I64, "y := values(1, 9007199254740993)");
    assert!(message.contains("9007199254740993 is not exact in a list of values"), "{message}");
}

/// `inf` is infinity in every type that has one, and `f64` represents 1e39. `neg(1)` is computed in the type
/// of its context.
#[test]
fn numbers_within_their_type() {
    let nodes = [
        node("y", DType::F32, &[2]),
        node("d", DType::F64, &[2]),
        node("n", DType::I32, &[2]),
        node("u", DType::U16, &[2]),
    ];
    for text in [
        "y[i] := -inf",
        "y[i] := nan",
        "y := values(inf, nan)",
        "d[i] := 1e39",
        "d[i] := 1e308 * n[i]",
        "y[i] := pad(d, inf)[i]",
        "y[i] := 1e-400",
        "y[i] := 3.4028235e38",
        "u[i] := u[i] * neg(1)",
    ] {
        parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    }
}
