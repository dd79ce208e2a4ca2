//! Loops: one scan of the graph where a step needs no host, and else each step traced in place.

use std::sync::Arc;

use tnode::{DType, HostArray};

use super::{
    context::{Lowered, NodeContext},
    layout::concatenated,
};
use crate::{
    error::{OnnxError, Result},
    extents::needs_extents,
    host::HostValue,
    ir::{Dim, ModelGraph, ValueInfo},
    shape::axis,
    value::Value,
};

/// A loop or a scan without its operands.
pub(super) struct LoopNode {
    pub(super) body: Arc<ModelGraph>,
    /// Whether the body is given the number of the step and a condition, and decides whether it goes on.
    pub(super) is_loop: bool,
    pub(super) inputs: Vec<ScanAxis>,
    pub(super) outputs: Vec<ScanAxis>,
}

/// An array that a scan walks along.
pub(super) struct Walked {
    pub(super) value: Value,
    pub(super) axis: usize,
    pub(super) is_reverse: bool,
}

impl Walked {
    fn steps(&self) -> usize {
        self.value.shape()[self.axis]
    }

    fn row_shape(&self) -> Vec<usize> {
        let mut shape = self.value.shape().to_vec();
        shape.remove(self.axis);
        shape
    }

    fn row(&self, cx: &mut NodeContext<'_>, step: usize) -> Result<Value> {
        let position = if self.is_reverse { self.steps() - 1 - step } else { step };
        let row = cx.taken(&self.value, self.axis, &[position])?;
        cx.reshaped(&row, &self.row_shape())
    }
}

impl LoopNode {
    /// The results of at most `most` steps from the initial state, along the axes of `operands`.
    pub(super) fn evaluated(
        &self,
        cx: &mut NodeContext<'_>,
        most: usize,
        state: Vec<Value>,
        operands: &[Value],
    ) -> Lowered {
        let mut walked = Vec::new();
        for (value, along) in operands.iter().zip(&self.inputs) {
            let (axis, is_reverse) = (axis(along.axis, value.rank())?, along.is_reverse);
            walked.push(Walked { value: value.clone(), axis, is_reverse });
        }
        let most = walked.iter().map(Walked::steps).min().unwrap_or(most);
        if most == 0 {
            return self.not_stepped(cx, state, &walked);
        }
        match self.scanned(cx, most, &state, &walked) {
            Ok(results) => Ok(results),
            Err(limit @ OnnxError::Limit { .. }) => Err(limit),
            Err(_) => match self.scanned_while(cx, most, &state, &walked) {
                Ok(results) => Ok(results),
                Err(limit @ OnnxError::Limit { .. }) => Err(limit),
                Err(_) => self.repeated(cx, most, state, &walked),
            },
        }
    }

    /// The results of steps one after the other, as copies of the body.
    fn repeated(
        &self,
        cx: &mut NodeContext<'_>,
        most: usize,
        mut state: Vec<Value>,
        walked: &[Walked],
    ) -> Lowered {
        let mut collected: Vec<Vec<Value>> = vec![Vec::new(); self.outputs.len()];
        let kept = walked.iter().map(|walked| walked.value.clone()).collect();
        cx.keeping(kept, |cx| -> Result<()> {
            for step in 0..most {
                cx.steps(1)?;
                let mut inputs = if self.is_loop { loop_inputs(step)? } else { Vec::new() };
                inputs.append(&mut state);
                for walked in walked {
                    inputs.push(walked.row(cx, step)?);
                }
                let results = self.step(cx, inputs)?;
                state = results.state;
                cx.keep(results.rows.clone());
                for (list, value) in collected.iter_mut().zip(results.rows) {
                    list.push(value);
                }
                let Some(condition) = results.condition else { continue };
                if cx.keeping(state.clone(), |cx| cx.host_of(&condition))?.ints() == [0] {
                    break;
                }
            }
            Ok(())
        })?;
        stacked(cx, state, collected, &self.outputs)
    }

    /// The results of a step.
    pub(super) fn step(&self, cx: &mut NodeContext<'_>, inputs: Vec<Value>) -> Result<StepResults> {
        let mut state = cx.subgraph(&self.body, inputs)?;
        let rows = state.split_off(state.len().saturating_sub(self.outputs.len()));
        let condition = if self.is_loop { Some(state.remove(0)) } else { None };
        Ok(StepResults { condition, state, rows })
    }

    /// The results without a step: the initial state, and no rows. If the body does not declare the shape of
    /// a row, a step tells it.
    fn not_stepped(&self, cx: &mut NodeContext<'_>, state: Vec<Value>, walked: &[Walked]) -> Lowered {
        let outputs = &self.body.outputs[self.body.outputs.len() - self.outputs.len()..];
        let declared: Vec<Option<(DType, Vec<usize>)>> = outputs.iter().map(declared).collect();
        let mut traced = Vec::new();
        if declared.contains(&None) {
            let mut inputs = if self.is_loop { loop_inputs(0)? } else { Vec::new() };
            inputs.extend(state.iter().cloned());
            for walked in walked {
                inputs.push(cx.filled(walked.value.dtype(), &walked.row_shape(), "0")?);
            }
            // A step that fails on the initial state has no shapes, but is no step of the model either.
            traced = match cx.keeping(state.clone(), |cx| self.step(cx, inputs)) {
                Ok(results) => results.rows,
                Err(problem) if matches!(problem.cause(), OnnxError::NeedsExtents { .. }) => {
                    return Err(problem);
                }
                Err(_) => Vec::new(),
            };
        }
        if let Some(row) = traced.iter().find(|row| row.has_sizes()) {
            return Err(needs_extents(row.given(), "a loop without steps has rows with a size"));
        }
        let mut traced = traced.iter();
        let mut results = state;
        for ((info, declared), along) in outputs.iter().zip(declared).zip(&self.outputs) {
            let of_step = traced.next().map(|value| (value.dtype(), value.shape().to_vec()));
            let (dtype, mut shape) = declared.or(of_step).unwrap_or_else(|| {
                let size = |dim: &Dim| if let Dim::Known(size) = dim { *size } else { 0 };
                let dims = info.dims.iter().flatten().map(size).collect();
                (info.dtype.unwrap_or(DType::F32), dims)
            });
            shape.insert(axis(along.axis, shape.len() + 1)?, 0);
            results.push(cx.empty(dtype, &shape)?);
        }
        Ok(results)
    }
}

/// The results of a step: whether a loop goes on, the state, and the values that are collected.
pub(super) struct StepResults {
    pub(super) condition: Option<Value>,
    pub(super) state: Vec<Value>,
    pub(super) rows: Vec<Value>,
}

pub(super) fn known(array: HostArray) -> Value {
    Value::Known(HostValue::new(array, false))
}

/// The number of a step and the condition, which the body of a loop is given.
fn loop_inputs(step: usize) -> Result<Vec<Value>> {
    let number = HostArray::from_slice(&[step as i64], [])?;
    Ok(vec![known(number), known(HostArray::from_bytes(DType::Bool, [], &[1])?)])
}

/// The type and shape of an output, if the model declares all of it.
fn declared(info: &ValueInfo) -> Option<(DType, Vec<usize>)> {
    let size = |dim: &Dim| if let Dim::Known(size) = dim { Some(*size) } else { None };
    Some((info.dtype?, info.dims.as_ref()?.iter().map(size).collect::<Option<_>>()?))
}

/// The final state, and the collected values of each step stacked along a new axis.
fn stacked(
    cx: &mut NodeContext<'_>,
    state: Vec<Value>,
    collected: Vec<Vec<Value>>,
    axes: &[ScanAxis],
) -> Lowered {
    let mut results = state;
    for (at, mut values) in collected.into_iter().enumerate() {
        let ScanAxis { axis: at_axis, is_reverse } = axes.get(at).copied().unwrap_or_default();
        if is_reverse {
            values.reverse();
        }
        if values.iter().any(|value| matches!(value, Value::Sequence(_))) {
            return Err(OnnxError::attribute("body", "arrays to collect, and no sequences"));
        }
        let at_axis = axis(at_axis, values[0].rank() + 1)?;
        let mut rows = Vec::new();
        for value in values {
            let mut shape = value.shape().to_vec();
            shape.insert(at_axis, 1);
            rows.push(cx.reshaped(&value, &shape)?);
        }
        results.push(concatenated(cx, &rows, at_axis)?);
    }
    Ok(results)
}

/// The axis that a scan walks along, and its direction.
#[derive(Clone, Copy, Default)]
pub(super) struct ScanAxis {
    pub(super) axis: i64,
    pub(super) is_reverse: bool,
}
