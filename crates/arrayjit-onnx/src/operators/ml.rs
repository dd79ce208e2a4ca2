//! Operators of `ai.onnx.ml`, which exporters of scikit-learn and of gradient boosting write.
//!
//! Labels that are texts are their numbers here: the position in the attribute that has the texts.

pub(super) mod ensemble; // ensembles of decision trees as files have them
pub(super) mod forest; // decision trees as tables
pub(super) mod kernels; // kernels of support vector machines, and regression by them
pub(super) mod labels; // encodings of labels and categories
pub(super) mod linear; // linear models
pub(super) mod scale; // functions of features
pub(super) mod scores; // from scores to probabilities and labels
pub(super) mod svm_classifier; // classes by support vector machines
pub(super) mod tree_ensemble; // ensembles of decision trees

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    extents::Extents,
    host::floats_of,
    value::Value,
};

/// An operator of `ai.onnx.ml`.
const fn ml(name: &'static str, since: i64, lower: fn(&mut NodeContext<'_>) -> Lowered) -> Operator {
    Operator { domain: "ai.onnx.ml", ..op(name, since, lower) }
}

/// The rows of features that operand 0 has, in f64 if it is, else in f32. A vector is one row.
fn features(cx: &mut NodeContext<'_>) -> Result<Value> {
    let x = cx.value(0)?;
    let x = match *x.shape() {
        [_, _] => x,
        [width] => cx.reshaped(&x, &[1, width])?,
        _ => return Err(OnnxError::operand(0, format!("expected rows of features, found {:?}", x.shape()))),
    };
    let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    cx.cast(&x, dtype)
}

/// The first axis of an array.
fn rows(extents: &Extents) -> Extents {
    Extents(extents.0[..1].to_vec())
}

/// Numbers of the model as an array on the device.
fn constants(
    cx: &mut NodeContext<'_>,
    name: &str,
    dtype: DType,
    shape: &[usize],
    values: &[f64],
) -> Result<Value> {
    cx.table(format!("{name} {dtype}"), || floats_of(dtype, shape, values))
}

/// The attribute of floats, as f64.
fn numbers(cx: &NodeContext<'_>, name: &str) -> Result<Vec<f64>> {
    Ok(cx.floats(name)?.unwrap_or_default().into_iter().map(f64::from).collect())
}
