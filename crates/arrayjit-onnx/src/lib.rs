//! Loads ONNX models and runs them compiled, specialised to the shapes of each call, on every backend.
//!
//! # Example
//!
//! ```
//! # use arrayjit_onnx::proto::*;
//! # use prost::Message;
//! # let value = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
//! # let (input, output) = (vec!["x".into()], vec!["y".into()]);
//! # let node = vec![NodeProto { op_type: "Relu".into(), input, output, ..Default::default() }];
//! # let (input, output) = (vec![value("x")], vec![value("y")]);
//! # let graph = Some(GraphProto { node, input, output, ..Default::default() });
//! # let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
//! # let model = ModelProto { ir_version: 8, graph, opset_import, ..Default::default() };
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.onnx");
//! # std::fs::write(&path, model.encode_to_vec())?;
//! use arrayjit_onnx::{Backend, HostArray, Model};
//!
//! let model = Model::load(path)?;
//! let session = model.session(&Backend::open("multicore")?)?;
//! let x = HostArray::from_slice(&[1f32, -2.0, 3.0], [3])?;
//! let outputs = session.run(&[("x", &x)])?;
//! assert_eq!(outputs[0].values(), [1.0, 0.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! [`Model::load`] checks a file: names, operators, constants. A session walks the model once for each set of
//! input shapes. The walk evaluates shape arithmetic on the host and adds everything else to a graph of
//! `arrayjit-tensor`, which is compiled as a whole. Where an operator needs values that the graph computes,
//! such as the condition of an `If`, the graph is compiled and run, and the walk goes on in a new one. The
//! session keeps the compiled graphs with the decisions between them, so that later runs walk nothing.
#![forbid(unsafe_code)]

mod array; // arrays in files
mod error; // errors of loading and running
mod external; // arrays in files beside a model
mod narrow; // element types of fewer than 8 bits
pub mod proto; // messages of a file

mod fold; // functions of channels into convolutions
mod functions; // calls of functions of a model
mod ir; // checked models
mod load; // from messages to checked models

mod host; // arrays known while a model is traced
mod shape; // axes, broadcasting, indices of texts
mod value; // values while a model is traced

mod context; // nodes as operators see them
mod operators; // operators by family

mod model; // models and sessions
mod plan; // compiled routines and decisions between them
mod trace; // walks over a model

pub use arrayjit_tensor::Backend;
pub use tnode::{DType, HostArray};

pub use crate::{
    array::{from_proto as array_from_proto, to_proto as array_to_proto},
    error::{NodeProblem, OnnxError, UnsupportedNode},
    ir::{Dim, ValueInfo},
    model::{InferenceSession, Model},
};
