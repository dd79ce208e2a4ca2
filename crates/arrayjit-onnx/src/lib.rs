#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod array; // arrays in files
mod budget; // bounds of memory and steps
mod dequantized; // products of dequantized matrices
mod error; // the error of loading and running
mod external; // arrays in the files of a model
mod mapped; // files as memory
mod narrow; // element types of fewer than 8 bits
mod outline; // model files without their weights
pub mod proto; // messages of a file

mod fold; // functions of channels into convolutions
mod functions; // calls of functions of a model
mod ir; // checked models
mod load; // from messages to checked models
mod requantized; // quantizations that give back integers
mod texts; // labels that are texts

mod extents; // sizes that a run gives
mod host; // arrays known while a model is traced
mod joined; // axes that join several
mod shape; // axes, broadcasting, indices of texts
mod value; // values while a model is traced

mod operators; // operators by family

mod dimensions; // named dimensions as sizes
mod model; // models and sessions
mod plan; // compiled routines and decisions between them
mod program; // models as one graph, for other compilers
mod trace; // walks over a model

/// The programs of the guide, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/onnx.md")]
struct Guide;

pub use arrayjit_tensor::Backend;
pub use tnode::{DType, HostArray};

pub use crate::{
    array::{from_proto as array_from_proto, to_proto as array_to_proto},
    budget::OnnxLimits,
    dimensions::{SessionOptions, ShapePolicy},
    error::{OnnxError, UnsupportedNode},
    ir::{Dim, ValueInfo},
    model::{InferenceSession, Model},
    program::{DimensionSize, ModelProgram},
};
