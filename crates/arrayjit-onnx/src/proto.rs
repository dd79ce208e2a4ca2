//! The messages of an ONNX file. Field numbers are those of `onnx.proto`; fields that this crate does not
//! read are left out and skipped when a file is decoded.

use bytes::Bytes;
use prost::Message;

/// A model: a graph with the versions of the operator sets that it uses.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// The version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The name of the program that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// The graph that a run evaluates.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The version of each operator set; the empty domain is `ai.onnx`.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Names and values that describe the model.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Functions that nodes may call like operators.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// The version of one operator set.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// The domain; empty for `ai.onnx`.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// Nodes with named values between them.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// The nodes, sorted so that each value is made before it is read.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The name of the graph.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants, such as weights. An input of the same name has the constant as its default value.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// The inputs with their types.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs with their types.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Constants of which only the elements that are not 0 are stored.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
}

/// The application of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// The names of the operands; an empty name is an optional operand that is not given.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the results; an empty name is a result that nobody reads.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The name of the node.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// The domain of the operator; empty for `ai.onnx`.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions with the same name is called.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// An attribute of a node: a name and one value, in the field that `type` says.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value of type 1.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// The value of type 2.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// The value of type 3.
    #[prost(bytes = "bytes", tag = "4")]
    pub s: Bytes,
    /// The value of type 4.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// The value of type 5.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// The values of type 6.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// The values of type 7.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// The values of type 8.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// The field that has the value: 1 float, 2 integer, 3 text, 4 tensor, 5 graph, 6 to 8 lists of floats,
    /// integers and texts.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// The attribute of the enclosing function whose value this attribute takes.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// The value of type 11.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
}

/// An array of numbers.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// The size of each axis.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// The number of the element type.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements of f32.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of i32 and of all narrower types; floats of 16 bits are stored as bits.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements of i64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian elements of any type, instead of the other fields.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Elements of f64.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of u32 and u64.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// The file with the elements: the keys `location`, `offset` and `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in a file of their own.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A key with a value.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An array of which only some elements are stored; the others are 0.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The stored elements, with the name of the array.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// The position of each stored element.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The size of each axis.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// A named value with its type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// The type of a value. Sequences, maps and optional values are not read.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// The type of a tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// The number of the element type.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// The shape, if the rank is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// The axes.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// The size of an axis: a number, a name, or neither.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// The size, if it is fixed.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name of a size that each run decides.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// A function of a model.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// The name that nodes call it by.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The names of the parameters.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// The names of the results.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// The attributes that a call may have.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// The nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// The versions of the operator sets that the nodes use.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The domain of the function.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with default values.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Tells functions with the same name apart.
    #[prost(string, tag = "13")]
    pub overload: String,
}
