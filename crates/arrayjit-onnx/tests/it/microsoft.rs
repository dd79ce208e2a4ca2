//! Operators of `com.microsoft` with operands that do not fit.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{Backend, DType, HostArray, Model, proto::*};

use crate::build::{graph, int, model, node};

/// The operators, each with the largest number of operands.
const OPERATORS: &[(&str, usize)] = &[
    ("Attention", 7),
    ("BiasAdd", 3),
    ("BiasGelu", 2),
    ("BiasSplitGelu", 2),
    ("DequantizeLinear", 3),
    ("DynamicQuantizeLSTM", 12),
    ("DynamicQuantizeMatMul", 5),
    ("EmbedLayerNormalization", 9),
    ("FastGelu", 2),
    ("FusedConv", 4),
    ("FusedGemm", 3),
    ("FusedMatMul", 2),
    ("GatherBlockQuantized", 4),
    ("GroupNorm", 3),
    ("GroupQueryAttention", 11),
    ("Inverse", 1),
    ("MatMulBnb4", 3),
    ("MatMulIntegerToFloat", 7),
    ("MatMulNBits", 6),
    ("MultiHeadAttention", 8),
    ("NhwcConv", 3),
    ("PackedAttention", 6),
    ("PackedMultiHeadAttention", 7),
    ("QAttention", 9),
    ("QEmbedLayerNormalization", 18),
    ("QGemm", 9),
    ("QLinearAdd", 8),
    ("QLinearAveragePool", 5),
    ("QLinearConcat", 8),
    ("QLinearGlobalAveragePool", 5),
    ("QLinearSoftmax", 5),
    ("QLinearWhere", 9),
    ("RotaryEmbedding", 4),
    ("SkipLayerNormalization", 5),
    ("SkipSimplifiedLayerNormalization", 4),
    ("Trilu", 2),
];

/// A model of one node with that many operands.
fn of_one_node(operator: &str, operands: usize) -> ModelProto {
    let names: Vec<String> = (0..operands).map(|at| format!("x{at}")).collect();
    let mut node = node(&format!("y z = {operator} {}", names.join(" ")));
    node.domain = "com.microsoft".into();
    for (name, value) in
        [("num_heads", 2), ("kv_num_heads", 1), ("groups", 1), ("K", 2), ("N", 2), ("block_size", 16)]
    {
        node = int(node, name, value);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut model = model(graph(&names, &["y"], vec![node]));
    model.opset_import.push(OperatorSetIdProto { domain: "com.microsoft".into(), version: 1 });
    model
}

/// Operands of every rank, alike or one axis more from operand to operand, are computed with or rejected.
#[test]
fn operands_of_any_rank_are_computed_with_or_rejected() {
    let backend = Backend::open("inline").unwrap();
    let (mut accepted, mut rejected) = (0, 0);
    for &(operator, most) in OPERATORS {
        for operands in [1, 2, most / 2, most] {
            let session =
                Model::from_proto(&of_one_node(operator, operands)).unwrap().session(&backend).unwrap();
            for (rank, more, dtype) in (0..6).flat_map(|rank| {
                [0, 1].into_iter().flat_map(move |more| {
                    [DType::F32, DType::U8, DType::I32].map(|dtype| (rank, more, dtype))
                })
            }) {
                let arrays: Vec<HostArray> = (0..operands)
                    .map(|at| HostArray::zeros(dtype, vec![2; (rank + more * at) % 6]).unwrap())
                    .collect();
                let names: Vec<String> = (0..operands).map(|at| format!("x{at}")).collect();
                let given: Vec<(&str, &HostArray)> = names.iter().map(String::as_str).zip(&arrays).collect();
                match session.run(&given) {
                    Ok(_) => accepted += 1,
                    Err(_) => rejected += 1,
                }
            }
        }
    }
    assert!(accepted > 100 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

/// Rows of the cache behind the valid ones change no result, as in onnxruntime 1.32.
#[test]
fn rows_of_a_cache_behind_the_valid_ones_may_be_anything() {
    let mut node = node("y keys values = GroupQueryAttention q k v past_k past_v lengths total");
    node.domain = "com.microsoft".into();
    let node = int(int(node, "num_heads", 2), "kv_num_heads", 1);
    let names = ["q", "k", "v", "past_k", "past_v", "lengths", "total"];
    let mut model = model(graph(&names, &["y"], vec![node]));
    model.opset_import.push(OperatorSetIdProto { domain: "com.microsoft".into(), version: 1 });
    let array = |shape: &[usize], stale: Option<f32>| {
        let count = shape.iter().product();
        let mut values: Vec<f32> = (0..count).map(|at| (at * 7 % 13) as f32 / 8.0 - 0.5).collect();
        if let (Some(stale), &[batch, _, rows, size]) = (stale, shape) {
            for (at, value) in values.iter_mut().enumerate() {
                let (element, row) = (at / (rows * size) % batch, at / size % rows);
                // The first element of the batch has 6 valid rows, and the second one 4.
                *value = if row >= 6 - 2 * element { stale } else { *value };
            }
        }
        HostArray::from_slice(&values, shape.to_vec()).unwrap()
    };
    let [lengths, total] =
        [vec![5, 3], vec![6]].map(|values: Vec<i32>| HostArray::from_slice(&values, [values.len()]).unwrap());
    for backend in ["interpreter", "multicore"] {
        let session = Model::from_proto(&model).unwrap().session(&Backend::open(backend).unwrap()).unwrap();
        let run = |keys, values| {
            let [q, kv, past] = [[2, 1, 16].as_slice(), &[2, 1, 8], &[2, 1, 12, 8]];
            let arrays =
                [array(q, None), array(kv, None), array(kv, None), array(past, keys), array(past, values)];
            let arrays = arrays.iter().chain([&lengths, &total]);
            let given: Vec<(&str, &HostArray)> = names.into_iter().zip(arrays).collect();
            session.run(&given).unwrap()[0].values()
        };
        let expected = run(None, None);
        for stale in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(run(Some(stale), None), expected, "keys, {backend}");
            assert_eq!(run(None, Some(stale)), expected, "values, {backend}");
        }
    }
}
