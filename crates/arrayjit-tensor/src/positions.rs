//! Inputs whose integers are positions, such as labels and rows of a table. Each run checks them on the host:
//! on the device, a position outside of its axis chooses nothing, and a mistake in the data would only make
//! the loss smaller.

use std::{collections::BTreeMap, ops::Range};

use arrayjit::{DType, HostArray, TensorNode};

use crate::{
    error::Call,
    error::{Result, TensorError},
};

/// Operations that change the order of elements or their type, but drop none.
const REORDERING: [&str; 11] = [
    "reshape",
    "flatten",
    "unsqueeze",
    "squeeze",
    "permute",
    "transpose",
    "flip",
    "broadcast_to",
    "to_dtype",
    "step_slice", // all steps together have all elements
    "vmap_input", // so have all examples
];

/// The elements of an input that a tensor has.
#[derive(Clone)]
struct InputPart {
    input: String,
    /// The range and the step on each axis of the input.
    axes: Vec<(Range<usize>, usize)>,
    /// Whether the axes of the tensor are no longer those of the input.
    is_reordered: bool,
}

/// Which tensors of a graph are parts of inputs, and which of them have positions.
#[derive(Default)]
pub(crate) struct InputParts {
    parts: BTreeMap<TensorNode, InputPart>,
    checks: Vec<PositionCheck>,
    pub(crate) is_off: bool,
}

/// Elements of an input that an operation uses as positions.
#[derive(Clone)]
pub(crate) struct PositionCheck {
    part: InputPart,
    /// The number of positions.
    count: usize,
    /// A value that is no position.
    ignored: Option<i64>,
    call: Call,
}

impl InputParts {
    pub(crate) fn add_input(&mut self, name: &str, node: &TensorNode, shape: &[usize]) {
        let axes = shape.iter().map(|size| (0..*size, 1)).collect();
        self.parts.insert(node.clone(), InputPart { input: name.to_owned(), axes, is_reordered: false });
    }

    /// Notes the result of an operation with one operand.
    pub(crate) fn add_result(&mut self, call: Call, operand: &TensorNode, result: &TensorNode) {
        if REORDERING.contains(&call.op)
            && let Some(part) = self.parts.get(operand)
        {
            let part = InputPart { is_reordered: true, ..part.clone() };
            self.parts.insert(result.clone(), part);
        }
    }

    /// Notes that a tensor has every `step`-th element of `range` on an axis of another tensor.
    pub(crate) fn add_slice(
        &mut self,
        of: &TensorNode,
        slice: &TensorNode,
        axis: usize,
        (range, step): (&Range<usize>, usize),
    ) {
        let Some(part) = self.parts.get(of).filter(|part| !part.is_reordered) else { return };
        let mut part = part.clone();
        let (outer, outer_step) = &mut part.axes[axis];
        *outer = outer.start + range.start * *outer_step..outer.start + range.end * *outer_step;
        *outer_step *= step;
        self.parts.insert(slice.clone(), part);
    }

    /// Notes that an operation uses the integers of a tensor as positions on an axis of `count` elements, or
    /// ignores them.
    pub(crate) fn add_check(&mut self, call: Call, node: &TensorNode, count: usize, ignored: Option<i64>) {
        if let Some(part) = self.parts.get(node) {
            self.checks.push(PositionCheck { part: part.clone(), count, ignored, call });
        }
    }

    /// The checks of a run.
    pub(crate) fn checks(&self) -> Vec<PositionCheck> {
        if self.is_off { Vec::new() } else { self.checks.clone() }
    }
}

impl PositionCheck {
    pub(crate) fn input(&self) -> &str {
        &self.part.input
    }

    /// Checks the values of the input.
    pub(crate) fn check(&self, values: &HostArray) -> Result<()> {
        let Some((value, at)) = self.first_outside(values) else { return Ok(()) };
        let Call { op: operation, at: location, .. } = self.call;
        let (input, count) = (self.part.input.clone(), self.count);
        Err(TensorError::Position { input, value, at, count, operation, location })
    }

    /// The first value that is no position, with its index in the input.
    fn first_outside(&self, values: &HostArray) -> Option<(i64, Vec<usize>)> {
        macro_rules! of_type {
            ($type:ty) => {
                self.search(values.as_slice::<$type>().ok()?.iter().map(|value| i64::from(*value)), values)
            };
        }
        match values.dtype() {
            DType::I8 => of_type!(i8),
            DType::U8 => of_type!(u8),
            DType::U16 => of_type!(u16),
            DType::I32 => of_type!(i32),
            DType::U32 => of_type!(u32),
            DType::I64 => of_type!(i64),
            DType::U64 => {
                let values_of = values.as_slice::<u64>().ok()?.iter();
                self.search(values_of.map(|value| i64::try_from(*value).unwrap_or(i64::MAX)), values)
            }
            _ => None, // every truth value is a position, or none is
        }
    }

    fn search(&self, all: impl Iterator<Item = i64>, values: &HostArray) -> Option<(i64, Vec<usize>)> {
        let count = self.count as u64;
        // As an unsigned number, a negative one is large.
        let mut outside = all.enumerate().filter(|(_, value)| *value as u64 >= count);
        outside.find_map(|(number, value)| {
            let at = index_of(number, values.dims());
            (Some(value) != self.ignored && self.part.has(&at)).then_some((value, at))
        })
    }
}

impl InputPart {
    /// Whether the tensor has the element of the input.
    fn has(&self, index: &[usize]) -> bool {
        let mut axes = self.axes.iter().zip(index);
        axes.all(|((range, step), at)| range.contains(at) && (at - range.start).is_multiple_of(*step))
    }
}

/// The index of the element with this number in row-major order.
fn index_of(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|size| {
            let at = number % size;
            number /= size;
            at
        })
        .collect();
    index.reverse();
    index
}
