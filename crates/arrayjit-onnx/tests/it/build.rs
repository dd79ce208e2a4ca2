//! Models in a few lines.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

pub(crate) use arrayjit_onnx::proto::{GraphProto, NodeProto};
use arrayjit_onnx::{
    Backend, HostArray, InferenceSession, Model, OnnxError, OnnxLimits, array_to_proto, proto::*,
};

/// A node from a text such as `y = Relu x`; a name `_` is an operand that is not given.
pub(crate) fn node(text: &str) -> NodeProto {
    let (outputs, rest) = text.split_once('=').unwrap();
    let names = |text: &str| {
        text.split_whitespace().map(|name| if name == "_" { "" } else { name }.to_owned()).collect::<Vec<_>>()
    };
    let mut inputs = names(rest);
    let op_type = inputs.remove(0);
    NodeProto { op_type, input: inputs, output: names(outputs), ..NodeProto::default() }
}

/// The node with an attribute of an integer.
pub(crate) fn int(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    node.attribute.push(AttributeProto { name: name.into(), i: value, r#type: 2, ..Default::default() });
    node
}

/// The node with an attribute of integers.
pub(crate) fn ints(mut node: NodeProto, name: &str, values: &[i64]) -> NodeProto {
    let ints = values.to_vec();
    node.attribute.push(AttributeProto { name: name.into(), ints, r#type: 7, ..Default::default() });
    node
}

/// The node with an attribute of a text.
pub(crate) fn text(mut node: NodeProto, name: &str, value: &str) -> NodeProto {
    let s = value.as_bytes().to_vec().into();
    node.attribute.push(AttributeProto { name: name.into(), s, r#type: 3, ..Default::default() });
    node
}

/// The node with an attribute of a graph.
pub(crate) fn subgraph(mut node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    let g = Some(Box::new(graph));
    node.attribute.push(AttributeProto { name: name.into(), g, r#type: 5, ..Default::default() });
    node
}

/// An input or output; axes that are no numbers are names.
pub(crate) fn value(name: &str, dims: Option<&[&str]>) -> ValueInfoProto {
    let dim = |text: &&str| match text.parse() {
        Ok(size) => DimensionProto { dim_value: Some(size), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: Some((*text).into()) },
    };
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: if shape.is_some() { 1 } else { 0 }, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// A graph with inputs and outputs of any type.
pub(crate) fn graph(inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> GraphProto {
    let values = |names: &[&str]| names.iter().map(|name| value(name, None)).collect();
    GraphProto { node: nodes, input: values(inputs), output: values(outputs), ..Default::default() }
}

/// The graph with a constant.
pub(crate) fn constant(mut graph: GraphProto, name: &str, array: &HostArray) -> GraphProto {
    graph.initializer.push(array_to_proto(name, array).unwrap());
    graph
}

pub(crate) fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() }
}

pub(crate) fn load(graph: GraphProto) -> Result<Model, OnnxError> {
    Model::from_proto(&model(graph))
}

pub(crate) fn session(graph: GraphProto) -> InferenceSession {
    load(graph).unwrap().session(&Backend::open("inline").unwrap()).unwrap()
}

/// A session of a graph that may take so much.
pub(crate) fn session_within(limits: OnnxLimits, graph: GraphProto) -> Result<InferenceSession, OnnxError> {
    Model::from_proto_within(&model(graph), limits)?.session(&Backend::open("inline").unwrap())
}

/// A session of a graph of that version of the operator set.
pub(crate) fn session_of_opset(version: i64, graph: GraphProto) -> InferenceSession {
    let mut model = model(graph);
    model.opset_import[0].version = version;
    Model::from_proto(&model).unwrap().session(&Backend::open("inline").unwrap()).unwrap()
}

pub(crate) fn floats(values: &[f32], shape: &[usize]) -> HostArray {
    HostArray::from_slice(values, shape.iter().copied()).unwrap()
}

pub(crate) fn longs(values: &[i64], shape: &[usize]) -> HostArray {
    HostArray::from_slice(values, shape.iter().copied()).unwrap()
}

/// Checks the shape, and the elements within 1e-5 of the largest one; NaN is equal to NaN.
#[track_caller]
pub(crate) fn assert_close(found: &HostArray, shape: &[usize], expected: &[f64]) {
    assert_eq!(found.dims().to_vec(), shape);
    let most =
        expected.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most));
    let is_close = |(a, b): (f64, &f64)| a == *b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * most;
    let values = found.values();
    assert!(values.iter().copied().zip(expected).all(is_close), "{values:?} is not {expected:?}");
}
