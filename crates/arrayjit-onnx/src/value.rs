//! Values of a model while it is traced.

use std::sync::Arc;

use arrayjit_tensor::{Parameter, Tensor};
use tnode::{DType, HostArray, RunSizes, SizeSum};

use crate::{
    error::Result,
    extents::{self, Extents},
    host::{HostValue, ints_of},
    joined::JoinedArray,
};

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
    /// The values are integers that follow from sizes of the run.
    Sizes(Arc<SizeArray>),
    /// Axes join several, and a run gives the sizes of some of these.
    Joined(Arc<JoinedArray>),
    /// A list of arrays. Its length is known while a model is traced.
    Sequence(Arc<Vec<Value>>),
}

/// An array that each run has on the host: an input, or a result of an earlier segment.
#[derive(Clone)]
pub(crate) struct SlotValue {
    pub(crate) slot: usize,
    pub(crate) dtype: DType,
    /// The shape, with the bounds of sizes.
    pub(crate) shape: Vec<usize>,
    pub(crate) sizes: RunSizes,
}

impl Value {
    /// The shape of an array. A sequence has none; only operators that ask for sequences are given one.
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Value::Known(value) => value.shape(),
            Value::Slot(value) => &value.shape,
            Value::Lazy(tensor) => tensor.shape(),
            Value::Weight(parameter) => parameter.shape(),
            Value::Sizes(array) => &array.shape,
            Value::Joined(array) => array.shape(),
            Value::Sequence(_) => &[],
        }
    }

    /// The shape with the sizes that each run gives to axes that join no others.
    pub(crate) fn extents(&self) -> Extents {
        let names = match self {
            Value::Slot(value) => &value.sizes,
            Value::Lazy(tensor) => tensor.node().run_sizes(),
            _ => &[],
        };
        Extents::named(self.shape(), names)
    }

    /// Whether the values or the sizes of axes follow from sizes that each run gives.
    pub(crate) fn has_sizes(&self) -> bool {
        match self {
            Value::Sizes(_) | Value::Joined(_) => true,
            Value::Slot(value) => value.sizes.iter().any(Option::is_some),
            Value::Lazy(tensor) => tensor.node().run_sizes().iter().any(Option::is_some),
            Value::Known(_) | Value::Weight(_) | Value::Sequence(_) => false,
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Value::Known(value) => value.dtype(),
            Value::Slot(value) => value.dtype,
            Value::Lazy(tensor) => tensor.dtype(),
            Value::Weight(parameter) => parameter.dtype(),
            Value::Sizes(array) => array.dtype,
            Value::Joined(array) => array.split().dtype(),
            Value::Sequence(items) => items.first().map_or(DType::F32, Value::dtype),
        }
    }

    /// The names of the sizes that decide the value or its axes.
    pub(crate) fn given(&self) -> Vec<Arc<str>> {
        match self {
            Value::Sizes(array) => array.names().collect(),
            Value::Joined(array) => array.extents().given(),
            other => other.extents().given(),
        }
    }

    /// The value, the items of a sequence, or the array whose axes are joined.
    pub(crate) fn arrays(&self) -> &[Value] {
        match self {
            Value::Sequence(items) => items,
            Value::Joined(array) => std::slice::from_ref(array.split()),
            array => std::slice::from_ref(array),
        }
    }

    /// The value with each array changed.
    pub(crate) fn try_map<E>(self, change: &mut impl FnMut(Value) -> Result<Value, E>) -> Result<Value, E> {
        match self {
            Value::Sequence(items) => {
                let items = items.iter().map(|item| change(item.clone())).collect::<Result<_, _>>()?;
                Ok(Value::Sequence(Arc::new(items)))
            }
            Value::Joined(array) => Ok(array.with_split(change(array.split().clone())?)),
            array => change(array),
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

/// An array of integers that follow from sizes.
pub(crate) struct SizeArray {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Vec<SizeSum>,
}

impl SizeArray {
    /// The array as a value, which is known if no size decides it.
    pub(crate) fn value(self) -> Result<Value> {
        let constants: Option<Vec<i64>> = self.elements.iter().map(SizeSum::constant).collect();
        Ok(match constants {
            Some(values) => Value::Known(HostValue::new(ints_of(self.dtype, &self.shape, &values)?, false)),
            None => Value::Sizes(Arc::new(self)),
        })
    }

    /// The integers of a value; none if they are not known or floats.
    pub(crate) fn of(value: &Value) -> Option<Arc<SizeArray>> {
        match value {
            Value::Sizes(array) => Some(array.clone()),
            Value::Known(known) if !known.dtype().is_float() => Some(Arc::new(SizeArray {
                dtype: known.dtype(),
                shape: known.shape().to_vec(),
                elements: known.ints().into_iter().map(SizeSum::from).collect(),
            })),
            _ => None,
        }
    }

    /// The positions of the elements.
    pub(crate) fn positions(&self, first: usize) -> Result<Value> {
        let numbers: Vec<i64> = (first..first + self.elements.len()).map(|at| at as i64).collect();
        let array = HostArray::from_slice(&numbers, self.shape.iter().copied())?;
        Ok(Value::Known(HostValue::new(array, false)))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.elements.iter().flat_map(extents::given)
    }
}
