//! Types, capitals and attributes that other libraries accept.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{DType, HostArray, proto::AttributeProto};

use crate::build::*;

fn array(dtype: DType, values: &[f64], shape: &[usize]) -> HostArray {
    let mut array = HostArray::zeros(dtype, shape.iter().copied()).unwrap();
    array.set_values(values).unwrap();
    array
}

fn float(mut node: NodeProto, name: &str, f: f32) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), f, r#type: 1, ..Default::default() });
    node
}

/// Squares of f16 overflow from 256 on, and means of narrow floats need more bits than they have.
#[test]
fn norms_of_narrow_floats_are_wide() {
    for dtype in NARROW {
        for (call, expected) in [
            (node("y = LpNormalization x"), [0.6, 0.8]),
            (int(node("y = LRN x"), "size", 1), [300.0 / 10f64.powf(0.75), 400.0 / 17f64.powf(0.75)]),
            (ints(node("y = MeanVarianceNormalization x"), "axes", &[3]), [-1.0, 1.0]),
        ] {
            let (operator, mut x) = (call.op_type.clone(), HostArray::zeros(dtype, [1, 1, 1, 2]).unwrap());
            x.set_values(&[300.0, 400.0]).unwrap();
            let found = session(graph(&["x"], &["y"], vec![call])).run(&[("x", &x)]).unwrap()[0].values();
            for (found, expected) in found.iter().zip(expected) {
                assert!((found / expected - 1.0).abs() < 0.01, "{operator}, {dtype}: {found}");
            }
        }
    }
}

#[test]
fn a_negative_epsilon_is_named() {
    for text in
        ["y = LayerNormalization x w", "y = InstanceNormalization x w w", "y = BatchNormalization x w w w w"]
    {
        let of = graph(&["x"], &["y"], vec![float(node(text), "epsilon", -1.0)]);
        let session = session(constant(of, "w", &floats(&[1.0; 3], &[3])));
        let error = session.run(&[("x", &floats(&[1.0; 18], &[2, 3, 3]))]).err().unwrap().to_string();
        assert!(
            error.contains("attribute `epsilon`: expected a finite number, 0 or more, not -1"),
            "{error}"
        );
    }
}

const NARROW: [DType; 2] = [DType::F16, DType::Bf16];

#[test]
fn old_clip_takes_narrow_floats_and_one_bound() {
    for dtype in [NARROW.as_slice(), &[DType::F32, DType::F64]].concat() {
        for (bounds, expected) in [
            (&[("min", 0.0)][..], [0.0, 0.5, 30000.0]),
            (&[("max", 1.0)], [-3.0, 0.5, 1.0]),
            (&[("min", -2.0), ("max", f32::MAX)], [-2.0, 0.5, 30000.0]),
            (&[], [-3.0, 0.5, 30000.0]),
        ] {
            let clip =
                bounds.iter().fold(node("y = Clip x"), |node, (name, bound)| float(node, name, *bound));
            let session = session_of_opset(10, graph(&["x"], &["y"], vec![clip]));
            let found = &session.run(&[("x", &array(dtype, &[-3.0, 0.5, 30000.0], &[3]))]).unwrap()[0];
            assert_eq!((found.dtype(), found.values()), (dtype, array(dtype, &expected, &[3]).values()));
        }
    }
}

#[test]
fn sums_and_products_along_an_axis_take_all_types() {
    for (operator, expected) in [("CumSum", [1.0, 3.0, 6.0]), ("CumProd", [1.0, 2.0, 6.0])] {
        for dtype in
            [NARROW.as_slice(), &[DType::F32, DType::F64, DType::I32, DType::I64, DType::U8]].concat()
        {
            let model = graph(&["x"], &["y"], vec![node(&format!("y = {operator} x at"))]);
            let session = session_of_opset(26, constant(model, "at", &longs(&[1], &[])));
            let x = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]].concat();
            let found = &session.run(&[("x", &array(dtype, &x, &[2, 3]))]).unwrap()[0];
            assert_eq!((found.dtype(), found.values()), (dtype, [expected, expected].concat()), "{operator}");
            let found = &session.run(&[("x", &array(dtype, &[], &[2, 0]))]).unwrap()[0];
            assert_eq!((found.dtype(), found.dims().to_vec()), (dtype, vec![2, 0]));
        }
    }
}

/// An LSTM of two units on one number, whose weights are all 0.5, after one step from a cell of 1.
fn lstm(change: impl Fn(NodeProto) -> NodeProto) -> Vec<f64> {
    let layer = int(node("_ h c = LSTM x w r _ _ h0 c0"), "hidden_size", 2);
    let mut model = graph(&["x"], &["h", "c"], vec![change(layer)]);
    for (name, shape) in [("w", &[1, 8, 1][..]), ("r", &[1, 8, 2]), ("h0", &[1, 1, 2]), ("c0", &[1, 1, 2])] {
        let value = if name == "c0" { 1.0 } else { 0.5 };
        model = constant(model, name, &floats(&vec![value; shape.iter().product()], shape));
    }
    session(model)
        .run(&[("x", &floats(&[1.0], &[1, 1, 1]))])
        .unwrap()
        .iter()
        .flat_map(HostArray::values)
        .collect()
}

#[test]
fn a_forget_gate_may_be_coupled_with_the_input_gate() {
    let gate = 1.0 / (1.0 + (-1f64).exp());
    let cell = |forget: f64| forget + gate * 1f64.tanh();
    for (is_coupled, c) in [(0, cell(gate)), (1, cell(1.0 - gate))] {
        let h = gate * c.tanh();
        let found = lstm(|node| int(node, "input_forget", is_coupled));
        for (found, expected) in found.into_iter().zip([h, h, c, c]) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }
}

#[test]
fn names_of_activations_may_have_small_letters() {
    let texts = |names: [&str; 3]| {
        lstm(|mut node| {
            let strings = names.map(|name| name.as_bytes().to_vec().into()).into();
            let name = "activations".into();
            node.attribute.push(AttributeProto { name, strings, r#type: 8, ..Default::default() });
            node
        })
    };
    assert_eq!(texts(["sigmoid", "tanh", "tanh"]), lstm(|node| node));
    assert_eq!(texts(["hardsigmoid", "softsign", "RELU"]), texts(["HardSigmoid", "Softsign", "Relu"]));
}

#[test]
fn fewer_positions_than_elements_are_scattered() {
    for (reduction, expected) in [
        ("none", [7.0, 1.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("add", [8.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("max", [7.0, 1.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ] {
        for at in [1, 0] {
            let scatter = text(int(node("y = ScatterElements x p u"), "axis", at), "reduction", reduction);
            let session = session_of_opset(18, graph(&["x", "p", "u"], &["y"], vec![scatter]));
            let shape = if at == 1 { [1, 2] } else { [2, 1] };
            let (p, u) = (longs(&[0, -1], &shape), floats(&[7.0, 8.0], &shape));
            let outputs = session.run(&[("x", &floats(&[1.0; 9], &[3, 3])), ("p", &p), ("u", &u)]).unwrap();
            let turned = |expected: [f64; 9]| {
                let order = if at == 1 { [0, 1, 2, 3, 4, 5, 6, 7, 8] } else { [0, 3, 6, 1, 4, 7, 2, 5, 8] };
                order.map(|from| expected[from])
            };
            assert_eq!(outputs[0].values(), turned(expected), "{reduction} along {at}");
        }
    }
}

#[test]
fn margins_of_narrow_floats_may_be_their_extremes() {
    for (dtype, least) in [(DType::F16, -65504.0), (DType::Bf16, f64::from(f32::MIN))] {
        let pad = float(ints(node("y = Pad x"), "pads", &[1, 0]), "value", least as f32);
        let session = session_of_opset(10, graph(&["x"], &["y"], vec![pad]));
        let found = &session.run(&[("x", &array(dtype, &[1.0], &[1]))]).unwrap()[0];
        assert_eq!(found.values(), array(dtype, &[least, 1.0], &[2]).values());
    }
}
