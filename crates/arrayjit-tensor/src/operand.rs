//! The arguments of operations: tensors, parameters and numbers.

use arrayjit::{DType, TensorNode};

use crate::{error::TensorError, graph::Graph, parameter::Parameter, tensor::Tensor};

/// An argument of an operation: a tensor, a parameter, or a number, which takes the type of the other
/// argument if it can.
pub trait TensorOperand: sealed::SealedOperand {
    /// The argument as data.
    #[doc(hidden)]
    fn argument(&self) -> Argument<'_>;
}

/// An argument as data.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Argument<'a> {
    Tensor(&'a Tensor),
    Parameter(&'a Parameter),
    Integer(i64),
    Float(f64),
}

impl Argument<'_> {
    /// The node, unless the argument is a number.
    pub(crate) fn node(&self) -> Option<&TensorNode> {
        match self {
            Argument::Tensor(tensor) => Some(tensor.node()),
            Argument::Parameter(parameter) => Some(parameter.node()),
            Argument::Integer(_) | Argument::Float(_) => None,
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Argument::Tensor(tensor) => tensor.shape(),
            Argument::Parameter(parameter) => parameter.shape(),
            Argument::Integer(_) | Argument::Float(_) => &[],
        }
    }

    /// The element type; none for a number.
    pub(crate) fn dtype(&self) -> Option<DType> {
        match self {
            Argument::Tensor(tensor) => Some(tensor.dtype()),
            Argument::Parameter(parameter) => Some(parameter.dtype()),
            Argument::Integer(_) | Argument::Float(_) => None,
        }
    }

    pub(crate) fn graph(&self) -> Option<&Graph> {
        match self {
            Argument::Tensor(tensor) => Some(tensor.graph()),
            _ => None,
        }
    }

    /// The error of a shape other than the expected one.
    pub(crate) fn misshapen(&self, expected: impl Into<String>) -> TensorError {
        TensorError::Shape { what: self.name(), found: self.shape().to_vec(), expected: expected.into() }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Argument::Tensor(tensor) => tensor.name(),
            Argument::Parameter(parameter) => parameter.name().to_owned(),
            Argument::Integer(value) => value.to_string(),
            Argument::Float(value) => value.to_string(),
        }
    }
}

/// A number as assignment text. A float always has a point or an exponent, so that integers next to it become
/// floats.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "nan".into(),
        value if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.into(),
        value => format!("{value:?}"),
    }
}

/// A number as assignment text for an array of a type: whole numbers are integers unless it has floats.
pub(crate) fn number_of(dtype: DType, value: f64) -> String {
    let is_whole = value.fract() == 0.0 && value.abs() <= 2f64.powi(53);
    if is_whole && !dtype.is_float() { format!("{value:.0}") } else { number(value) }
}

impl TensorOperand for &Tensor {
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self)
    }
}

impl TensorOperand for Tensor {
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self)
    }
}

impl TensorOperand for &Parameter {
    fn argument(&self) -> Argument<'_> {
        Argument::Parameter(self)
    }
}

impl TensorOperand for Parameter {
    fn argument(&self) -> Argument<'_> {
        Argument::Parameter(self)
    }
}

impl TensorOperand for f64 {
    fn argument(&self) -> Argument<'_> {
        Argument::Float(*self)
    }
}

impl TensorOperand for f32 {
    fn argument(&self) -> Argument<'_> {
        // The shortest decimal of the f32, which reads as the same f32 again.
        Argument::Float(format!("{self:?}").parse().unwrap_or(f64::from(*self)))
    }
}

impl TensorOperand for i64 {
    fn argument(&self) -> Argument<'_> {
        Argument::Integer(*self)
    }
}

impl TensorOperand for i32 {
    fn argument(&self) -> Argument<'_> {
        Argument::Integer(i64::from(*self))
    }
}

mod sealed {
    pub trait SealedOperand {}
    impl SealedOperand for &crate::Tensor {}
    impl SealedOperand for crate::Tensor {}
    impl SealedOperand for &crate::Parameter {}
    impl SealedOperand for crate::Parameter {}
    impl SealedOperand for f64 {}
    impl SealedOperand for f32 {}
    impl SealedOperand for i64 {}
    impl SealedOperand for i32 {}
}
