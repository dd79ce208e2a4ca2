//! Values of a model while it is traced.

use std::sync::Arc;

use arrayjit_tensor::{Parameter, Tensor};
use tnode::DType;

use crate::host::HostValue;

/// A value of a model while it is traced.
#[derive(Clone)]
pub(crate) enum Value {
    /// The values are known.
    Known(Arc<HostValue>),
    /// Each run has the values before the current graph starts; reading them is a decision of the plan.
    Slot(SlotValue),
    /// The current graph computes the values.
    Lazy(Tensor),
    /// The device has the values for the whole session, and the host has not.
    Weight(Parameter),
}

/// An array that each run has on the host: an input, or a result of an earlier segment.
#[derive(Clone)]
pub(crate) struct SlotValue {
    pub(crate) slot: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl Value {
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Value::Known(value) => value.shape(),
            Value::Slot(value) => &value.shape,
            Value::Lazy(tensor) => tensor.shape(),
            Value::Weight(parameter) => parameter.shape(),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Value::Known(value) => value.dtype(),
            Value::Slot(value) => value.dtype,
            Value::Lazy(tensor) => tensor.dtype(),
            Value::Weight(parameter) => parameter.dtype(),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }

    pub(crate) fn num_elements(&self) -> usize {
        self.shape().iter().product()
    }

    pub(crate) fn known(&self) -> Option<&Arc<HostValue>> {
        match self {
            Value::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Whether every run has the same known values.
    pub(crate) fn is_constant(&self) -> bool {
        self.known().is_some_and(|value| value.is_constant)
    }
}
