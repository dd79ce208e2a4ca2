//! Constants, which give the same bits as inputs with the same values.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{DType, HostArray};

use crate::build::*;

const EXTREMES: [f64; 18] = [
    300.7,
    -1.0,
    256.0,
    -300.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1e-40,
    3e38,
    65504.0,
    70000.0,
    2147483648.0,
    9.3e18,
    2e19,
    -0.5,
    2.5,
];

/// The extreme values of a type, which are pairs `[a, b]` for `is_pair`.
fn extremes(dtype: DType) -> HostArray {
    let ints =
        [0, 1, -1, 127, 128, 255, 256, 65535, 1 << 24, (1 << 53) + 1, i64::MAX, i64::MIN, -300, 1 << 31];
    let mut array =
        HostArray::zeros(dtype, [if dtype.is_float() { EXTREMES.len() } else { ints.len() }]).unwrap();
    match dtype {
        DType::I64 => array.as_mut_slice::<i64>().unwrap().copy_from_slice(&ints),
        DType::U64 => array.as_mut_slice::<u64>().unwrap().copy_from_slice(&ints.map(|value| value as u64)),
        _ if dtype.is_float() => array.set_values(&EXTREMES).unwrap(),
        _ => array.set_values(&ints.map(|value| value as f64)).unwrap(),
    }
    array
}

/// The bytes of the elements, where all NaNs are the same.
fn bits(array: &HostArray) -> Vec<Vec<u8>> {
    let chunks = array.bytes().chunks(array.dtype().size_bytes());
    let element = |(bytes, value): (&[u8], f64)| if value.is_nan() { vec![] } else { bytes.to_vec() };
    chunks.zip(array.values()).map(element).collect()
}

/// Runs a node on inputs and on the same constants, with names `x0`, `x1` and so on.
#[track_caller]
fn agree(node: &NodeProto, arrays: &[&HostArray]) {
    let names: Vec<String> = (0..arrays.len()).map(|at| format!("x{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_inputs = session(graph(&names, &["y"], vec![node.clone()]));
    let inputs: Vec<(&str, &HostArray)> = names.iter().copied().zip(arrays.iter().copied()).collect();
    let constants = inputs
        .iter()
        .fold(graph(&[], &["y"], vec![node.clone()]), |all, (name, array)| constant(all, name, array));
    let [a, b] = [of_inputs.run(&inputs).unwrap(), session(constants).run(&[]).unwrap()];
    let about = format!("{} of {} {:?}", node.op_type, arrays[0].dtype(), node.attribute);
    assert_eq!(a[0].dtype(), b[0].dtype(), "{about}");
    assert_eq!(bits(&a[0]), bits(&b[0]), "{about}: inputs give {:?}", a[0].values());
}

#[test]
fn casts_of_constants_and_of_inputs_agree() {
    use DType::*;
    for from in [F32, F64, F16, I64, U64, I32, U32, U8, I8, U16, Bool] {
        let x = extremes(from);
        for to in [1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 16, 17, 19] {
            for saturate in if to >= 17 { 0..2 } else { 1..2 } {
                agree(&int(int(node("y = Cast x0"), "to", to), "saturate", saturate), &[&x]);
            }
        }
    }
    let saturated =
        session(constant(graph(&[], &["y"], vec![int(node("y = Cast c"), "to", 2)]), "c", &extremes(F32)));
    assert_eq!(saturated.run(&[]).unwrap()[0].values()[..6], [255.0, 0.0, 255.0, 0.0, 0.0, 255.0]);
}

#[test]
fn arithmetic_of_constants_and_of_inputs_agrees() {
    use DType::*;
    for dtype in [F32, F64, F16, I64, U64, I32, U32, U8, I8] {
        let all = extremes(dtype);
        let (bytes, size) = (all.bytes(), dtype.size_bytes());
        let turned = [&bytes[5 * size..], &bytes[..5 * size]].concat();
        let turned = HostArray::from_bytes(dtype, all.dims().iter().copied(), &turned).unwrap();
        let operators = "Add Sub Mul Div Equal Less LessOrEqual Greater GreaterOrEqual Max Min";
        for operator in operators.split(' ') {
            agree(&node(&format!("y = {operator} x0 x1")), &[&all, &turned]);
        }
        let truth =
            HostArray::from_bytes(Bool, all.dims().iter().copied(), &vec![1; all.num_values()]).unwrap();
        agree(&node("y = Where x0 x1 x2"), &[&truth, &all, &turned]);
        for operator in ["Abs", "Sign", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"] {
            agree(&node(&format!("y = {operator} x0")), &[&all]);
        }
        for operator in
            if dtype.is_float() { "Ceil Floor Round Sqrt Reciprocal Neg" } else { "Abs" }.split(' ')
        {
            agree(&node(&format!("y = {operator} x0")), &[&all]);
        }
    }
}

#[test]
fn large_integers_keep_their_digits() {
    for number in [(1 << 53) + 1, i64::MAX, i64::MIN, -(1 << 53) - 1] {
        let value = longs(&[number], &[]);
        for text in ["y = Pad x margins value", "y = Max x value", "y = Where yes value x"] {
            let mut model = graph(&["x"], &["y"], vec![node(text)]);
            model = constant(constant(model, "margins", &longs(&[1, 0], &[2])), "value", &value);
            model = constant(model, "yes", &HostArray::from_bytes(DType::Bool, [], &[1]).unwrap());
            let outputs = session(model).run(&[("x", &longs(&[i64::MIN], &[1]))]).unwrap();
            assert_eq!(outputs[0].as_slice::<i64>().unwrap()[0], number, "{text}");
        }
    }
}

#[test]
fn an_integer_to_a_fraction_is_truncated() {
    let cases: [(f32, &[i64], &[i64]); 4] = [
        (0.5, &[8, 2, 3, 15, 16, 1 << 40, 99_980_001], &[2, 1, 1, 3, 4, 1 << 20, 9999]),
        (1.5, &[2, 4, 3], &[2, 8, 5]),
        (2.0, &[-3, 3_037_000_499], &[9, 9_223_372_030_926_249_001]),
        (1.0, &[-7, 123_456_789], &[-7, 123_456_789]),
    ];
    for (exponent, x, expected) in cases {
        let exponent = floats(&[exponent], &[]);
        let x = longs(x, &[x.len()]);
        let session = session(constant(graph(&["x"], &["y"], vec![node("y = Pow x e")]), "e", &exponent));
        assert_eq!(session.run(&[("x", &x)]).unwrap()[0].as_slice::<i64>().unwrap(), expected);
    }
}

#[test]
fn a_large_constant_of_f16_is_no_overflow() {
    let mut mask = HostArray::zeros(DType::F16, [1]).unwrap();
    mask.set_values(&[-65504.0]).unwrap();
    let model = constant(graph(&["c", "x"], &["y"], vec![node("y = Where c x mask")]), "mask", &mask);
    let c = HostArray::from_bytes(DType::Bool, [2], &[0, 1]).unwrap();
    let mut x = HostArray::zeros(DType::F16, [2]).unwrap();
    x.set_values(&[1.0, 2.0]).unwrap();
    let outputs = session(model).run(&[("c", &c), ("x", &x)]).unwrap();
    assert_eq!(outputs[0].values(), [-65504.0, 2.0]);
}
