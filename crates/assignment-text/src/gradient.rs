//! Gradients in a text: `grad loss by w, b` makes the nodes `w.grad` and `b.grad`.
//!
//! The gradient of `w` is `w.grad`. The gradients of a family are a family too: that of `w[2]` is
//! `w.grad[2]`. A gradient has the dimensions of its parameter, and the same element type, but `f32` for
//! narrower floats. A given or declared node of that name receives the derivatives instead of a new one. A
//! parameter stands for the values that it has where the `grad` stands, and may be an intermediate.
//! `detach m` makes the values that `m` has there constants for gradients.

use std::collections::BTreeSet;
use std::sync::Arc;

use tnode::{DType, TensorNode};

use crate::ast::{Access, Frame, Gradient, Role};
use crate::error::{LocatedError, TextErrorKind, framed};
use crate::infer::Inference;
use crate::names::NodeNames;
use assignments::ByteRange;
use assignments::{AccessSpan, Origin, ProgramStep};
use lowered_ir::SourceText;

/// The kind of an error about a gradient in a text.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TextGradientError {
    /// A loss that is no float of rank 0.
    #[error("the loss of a gradient is a float of rank 0, found `{name} {dtype}{dims:?}`")]
    Loss {
        /// The name.
        name: String,
        /// Its type.
        dtype: DType,
        /// Its dimensions.
        dims: Vec<usize>,
    },
    /// A loss that the program does not compute.
    #[error("no statement before this one writes the loss `{name}`")]
    LossNotWritten {
        /// The name.
        name: String,
    },
    /// A parameter or gradient of integers.
    #[error("node `{name}` is of {dtype}; expected a float, since integers have no derivatives")]
    Integer {
        /// The name.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// A read of a gradient that nothing computes.
    #[error(
        "no statement before this one computes `{name}`; expected `grad loss by {parameter}`, where `loss` is the node to \
         differentiate"
    )]
    NotComputed {
        /// The name of the gradient.
        name: String,
        /// The node by which to differentiate.
        parameter: String,
    },
}

/// The name of the gradient of a node: `w.grad` for `w`, and `w.grad.2` for the node `w.2` of a family.
pub(crate) fn gradient_name(parameter: &str) -> String {
    let (family, positions) = family_of(parameter);
    format!("{family}.grad{positions}")
}

/// The name of the node whose gradient has this name; `None` for other names.
pub(crate) fn parameter_name(gradient: &str) -> Option<String> {
    let (family, positions) = family_of(gradient);
    family.strip_suffix(".grad").map(|parameter| format!("{parameter}{positions}"))
}

/// The name of the family of a node and its position in it, as in `w` and `.2`. The position is empty for a
/// node of no family.
fn family_of(name: &str) -> (&str, &str) {
    let mut family = name;
    while let Some((before, position)) = family.rsplit_once('.') {
        if !position.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        family = before;
    }
    (family, &name[family.len()..])
}

/// The position of a node in the family of that name; `None` for other nodes.
pub(crate) fn position_in(family: &str, name: &str) -> Option<Vec<u64>> {
    let (found, positions) = family_of(name);
    let position = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
    let is_member = found == family && !positions.is_empty();
    is_member.then(|| positions.split('.').skip(1).map(position).collect())
}

/// Checks the loss and the parameters of a gradient, and makes the nodes of the derivatives.
pub(crate) fn analyse(
    gradient: &Gradient,
    inference: &mut Inference<'_>,
    text: &SourceText,
) -> Result<ProgramStep, LocatedError> {
    let loss = loss(gradient, inference)?;
    let (mut parameters, mut spans, mut names) = (Vec::new(), vec![&gradient.loss.span], BTreeSet::new());
    for access in &gradient.parameters {
        for name in inference.names().members(&access.name) {
            let parameter = parameter(&name, access, inference)?;
            let name = gradient_name(&name);
            if !names.insert(name.clone()) {
                return Err(TextErrorKind::DefinedTwice { what: "gradient", name }.at(access.span.clone()));
            }
            let written = receiver(&name, &parameter, access, &gradient.frame, inference)?;
            parameters.push((parameter, written));
            spans.push(&access.span);
        }
    }
    let place = |whole: &ByteRange| AccessSpan { whole: whole.clone(), indices: Vec::new() };
    let operands = spans.into_iter().map(place).collect();
    let statement = framed(gradient.span.clone(), &gradient.frame, text);
    let origin = Origin::new(text, statement, place(&gradient.span), operands);
    Ok(ProgramStep::Gradient { loss, parameters, origin })
}

/// The loss, which an earlier statement writes.
fn loss(gradient: &Gradient, inference: &mut Inference<'_>) -> Result<TensorNode, LocatedError> {
    let node = read(&gradient.loss.name, &gradient.loss, inference)?;
    let located = |kind: TextErrorKind| kind.at(gradient.loss.span.clone());
    let name = gradient.loss.name.clone();
    if !inference.is_written(&node) {
        return Err(located(TextGradientError::LossNotWritten { name }.into()));
    }
    inference.settle_numbers(&node, DType::F32, gradient.span.start);
    let dims = node.dims_without_padding().map_err(|error| located(error.into()))?;
    let dtype = node.dtype();
    if !dtype.is_float() || !dims.is_empty() {
        return Err(located(TextGradientError::Loss { name, dtype, dims: dims.to_vec() }.into()));
    }
    Ok(node)
}

/// A parameter: a node of floats that has values.
fn parameter(name: &str, access: &Access, inference: &mut Inference<'_>) -> Result<TensorNode, LocatedError> {
    let node = read(name, access, inference)?;
    let located = |kind: TextGradientError| TextErrorKind::from(kind).at(access.span.clone());
    match node.dtype() {
        dtype if dtype.is_float() => Ok(node),
        dtype => Err(located(TextGradientError::Integer { name: name.to_owned(), dtype })),
    }
}

/// A node that has values and that the program reads.
fn read(name: &str, access: &Access, inference: &mut Inference<'_>) -> Result<TensorNode, LocatedError> {
    let node = with_values(name, access, inference.names())?;
    inference.mark_read(&node);
    Ok(node)
}

/// A node that has values.
pub(crate) fn with_values(
    name: &str,
    access: &Access,
    names: &NodeNames,
) -> Result<TensorNode, LocatedError> {
    let located = |kind: TextErrorKind| kind.at(access.span.clone());
    let node = names.find(name).map_err(located)?;
    if names.is_unwritten(name) {
        return Err(located(names.not_written(name)));
    }
    Ok(node)
}

/// The node that receives the derivatives by a parameter: the node of that name, or a new one.
fn receiver(
    name: &str,
    parameter: &TensorNode,
    access: &Access,
    frame: &Option<Arc<Frame>>,
    inference: &mut Inference<'_>,
) -> Result<TensorNode, LocatedError> {
    let located = |kind: TextErrorKind| kind.at(access.span.clone());
    let dims = parameter.dims_without_padding().map_err(|error| located(error.into()))?;
    let dtype = parameter.dtype().promote(DType::F32);
    if !inference.names().has(name) {
        let label = inference.names().label(name);
        let node = TensorNode::builder(label).dims(dims.clone()).dtype(dtype).build();
        let node = node.map_err(|error| located(error.into()))?;
        inference.add_intermediate(name, node);
    }
    if let Some(role @ (Role::Input | Role::Const)) = inference.names().role(name) {
        let (name, role) = (name.to_owned(), role.token());
        return Err(located(TextErrorKind::ReadOnly { name, role }));
    }
    let node = inference.names().find(name).map_err(located)?;
    node.set_dims(dims).map_err(|error| located(error.into()))?;
    inference.settle_open(&node, dtype, access.span.start);
    match node.dtype() {
        found if found.is_float() => {
            inference.mark_written(name, name, &access.span, frame);
            Ok(node)
        }
        dtype => Err(located(TextGradientError::Integer { name: name.to_owned(), dtype }.into())),
    }
}
