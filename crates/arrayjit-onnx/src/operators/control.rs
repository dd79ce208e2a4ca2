//! Branches and loops. The body of a loop is traced once, and becomes a scan of the graph; where the host
//! decides how it goes on, each step is traced in place, as are branches.

use std::sync::Arc;

use arrayjit_tensor::low_level::{self, Argument};
use tnode::{DType, HostArray};

use super::{
    context::{Lowered, NodeContext},
    layout::concatenated,
    operator::{Operator, list_op, op},
};
use crate::{
    error::{OnnxError, Result},
    host::HostValue,
    ir::{Dim, ModelGraph, ValueInfo},
    shape::axis,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("If", 1, branch).sized(),
    list_op("Loop", 1, repeated),
    op("Scan", 9, scan),
    op("Scan", 8, batched_scan),
];

/// The most steps of a scan; a condition ends loops without a number of steps, or their budget.
const MOST_SCANNED: usize = 1 << 32;

fn branch(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let condition = cx.host(0)?;
    if condition.array.num_values() != 1 {
        return Err(OnnxError::operand(0, "expected one element"));
    }
    let name = if condition.ints() == [0] { "else_branch" } else { "then_branch" };
    let graph = cx.graph(name)?.clone();
    cx.subgraph(&graph, Vec::new())
}

fn repeated(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let most = cx.optional_ints(0)?.and_then(|values| values.first().copied()).unwrap_or(i64::MAX);
    let goes_on = match cx.optional(1) {
        Some(_) => cx.host(1)?.ints() != [0],
        None => true,
    };
    let body = cx.graph("body")?.clone();
    let carried = cx.inputs().saturating_sub(2);
    let state: Vec<Value> = (0..carried).map(|at| cx.value(at + 2)).collect::<Result<_, _>>()?;
    let collected = body.outputs.len().checked_sub(carried + 1);
    let collected =
        collected.ok_or_else(|| OnnxError::attribute("body", "an output for each carried value"))?;
    let outputs = vec![ScanAxis::default(); collected];
    let most = if goes_on { usize::try_from(most).unwrap_or(0) } else { 0 };
    LoopNode { body, is_loop: true, inputs: Vec::new(), outputs }.evaluated(cx, most, state, &[])
}

/// A loop or a scan without its operands.
struct LoopNode {
    body: Arc<ModelGraph>,
    /// Whether the body is given the number of the step and a condition, and decides whether it goes on.
    is_loop: bool,
    inputs: Vec<ScanAxis>,
    outputs: Vec<ScanAxis>,
}

/// An array that a scan walks along.
struct Walked {
    value: Value,
    axis: usize,
    is_reverse: bool,
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

    fn row(&self, cx: &mut NodeContext<'_, '_>, step: usize) -> Result<Value> {
        let position = if self.is_reverse { self.steps() - 1 - step } else { step };
        let row = cx.taken(&self.value, self.axis, &[position])?;
        cx.reshaped(&row, &self.row_shape())
    }
}

impl LoopNode {
    /// The results of at most `most` steps from the initial state, along the axes of `operands`.
    fn evaluated(
        &self,
        cx: &mut NodeContext<'_, '_>,
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
            Err(_) => self.repeated(cx, most, state, &walked),
        }
    }

    /// The results of one scan of the graph. It is an error if a step needs values on the host, or if steps
    /// differ in their shapes.
    fn scanned(
        &self,
        cx: &mut NodeContext<'_, '_>,
        steps: usize,
        state: &[Value],
        walked: &[Walked],
    ) -> Lowered {
        if !(2..=MOST_SCANNED).contains(&steps) {
            return Err(OnnxError::Case(format!("a scan of {steps} steps")));
        }
        let initial = cx.tensors(state)?;
        let arrays = walked.iter().map(|walked| cx.tensor(&walked.value)).collect::<Result<Vec<_>, _>>()?;
        let initial: Vec<Argument<'_>> = initial.iter().map(Argument::Tensor).collect();
        let call = cx.call();
        let (last, collected) =
            cx.current().clone().scan(steps).run_all(false, &initial, |step, carried| {
                let mut inputs = Vec::new();
                if self.is_loop {
                    inputs = vec![
                        Value::Lazy(step.number()?),
                        known(HostArray::from_bytes(DType::Bool, [], &[1])?),
                    ];
                }
                inputs.extend(carried.into_iter().map(Value::Lazy));
                for (array, walked) in arrays.iter().zip(walked) {
                    let (array, axis) = (Argument::Tensor(array), walked.axis as isize);
                    inputs.push(Value::Lazy(step.slice_from(call, array, axis, walked.is_reverse)?));
                }
                let StepResults { condition, state, rows } = self.step(cx, inputs)?;
                if condition.is_some_and(|value| value.known().is_none_or(|known| known.ints() == [0])) {
                    return Err(OnnxError::Case("a condition that steps change".into()));
                }
                for row in &rows {
                    cx.reserve(row.dtype(), &[&[steps], row.shape()].concat())?;
                }
                let reverse = self.outputs.iter().map(|along| along.is_reverse);
                let rows = cx.tensors(&rows)?.into_iter().zip(reverse).collect();
                Ok::<_, OnnxError>(low_level::StepResults { state: cx.tensors(&state)?, rows, goes_on: None })
            })?;
        // As many as a walk over each step takes.
        let parts = 2 + self.body.nodes.len() + self.body.initializers.len();
        cx.steps(steps.saturating_mul(parts))?;
        let mut results: Vec<Value> = last.into_iter().map(Value::Lazy).collect();
        for (rows, along) in collected.into_iter().zip(&self.outputs) {
            let mut order: Vec<usize> = (1..rows.rank()).collect();
            order.insert(axis(along.axis, rows.rank())?, 0);
            results.push(cx.permuted(&Value::Lazy(rows), &order)?);
        }
        Ok(results)
    }

    /// The results of steps one after the other, as copies of the body.
    fn repeated(
        &self,
        cx: &mut NodeContext<'_, '_>,
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
    fn step(&self, cx: &mut NodeContext<'_, '_>, inputs: Vec<Value>) -> Result<StepResults> {
        let mut state = cx.subgraph(&self.body, inputs)?;
        let rows = state.split_off(state.len().saturating_sub(self.outputs.len()));
        let condition = if self.is_loop { Some(state.remove(0)) } else { None };
        Ok(StepResults { condition, state, rows })
    }

    /// The results without a step: the initial state, and no rows. If the body does not declare the shape of
    /// a row, a step tells it.
    fn not_stepped(&self, cx: &mut NodeContext<'_, '_>, state: Vec<Value>, walked: &[Walked]) -> Lowered {
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
            let results = cx.keeping(state.clone(), |cx| self.step(cx, inputs));
            traced = results.map_or_else(|_| Vec::new(), |results| results.rows);
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
struct StepResults {
    condition: Option<Value>,
    state: Vec<Value>,
    rows: Vec<Value>,
}

fn known(array: HostArray) -> Value {
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
    cx: &mut NodeContext<'_, '_>,
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
struct ScanAxis {
    axis: i64,
    is_reverse: bool,
}

/// The axes of `count` scanned operands or results.
fn scan_axes(cx: &NodeContext<'_, '_>, kind: &str, count: usize) -> Result<Vec<ScanAxis>> {
    let read = |name: String| {
        let values = cx.ints(&name)?.unwrap_or_else(|| vec![0; count]);
        let is_complete = values.len() == count;
        is_complete.then_some(values).ok_or_else(|| OnnxError::attribute(&name, format!("{count} integers")))
    };
    let (axes, directions) = (read(format!("scan_{kind}_axes"))?, read(format!("scan_{kind}_directions"))?);
    let pairs = axes.into_iter().zip(directions);
    Ok(pairs.map(|(axis, direction)| ScanAxis { axis, is_reverse: direction != 0 }).collect())
}

/// The body, and the numbers of carried and of scanned values among `operands`.
fn scan_parts(cx: &NodeContext<'_, '_>, operands: usize) -> Result<(Arc<ModelGraph>, usize, usize)> {
    let graph = cx.graph("body")?.clone();
    let scanned = usize::try_from(cx.int_or("num_scan_inputs", 0)?).unwrap_or(usize::MAX);
    let carried = operands.checked_sub(scanned);
    let carried = carried.ok_or_else(|| OnnxError::attribute("num_scan_inputs", "at most the operands"))?;
    if graph.outputs.len() < carried {
        return Err(OnnxError::attribute("body", "an output for each carried value"));
    }
    Ok((graph, carried, scanned))
}

fn scan(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (graph, carried, scanned) = scan_parts(cx, cx.inputs())?;
    let collected = graph.outputs.len() - carried;
    let (inputs, outputs) = (scan_axes(cx, "input", scanned)?, scan_axes(cx, "output", collected)?);
    let mut state = cx.values()?;
    let operands = state.split_off(carried);
    LoopNode { body: graph, is_loop: false, inputs, outputs }.evaluated(cx, 0, state, &operands)
}

/// The first version scans each element of a batch for itself.
fn batched_scan(cx: &mut NodeContext<'_, '_>) -> Lowered {
    if cx.optional(0).is_some() {
        return Err(OnnxError::Case("a scan with a length for each element of the batch".into()));
    }
    let count = cx.inputs().saturating_sub(1);
    let (graph, carried, scanned) = scan_parts(cx, count)?;
    let directions = cx.ints("directions")?.unwrap_or_else(|| vec![0; scanned]);
    let inputs = directions.iter().map(|&direction| ScanAxis { axis: 0, is_reverse: direction != 0 });
    let (inputs, collected) = (inputs.collect(), graph.outputs.len() - carried);
    let outputs = vec![ScanAxis::default(); collected];
    let steps = LoopNode { body: graph, is_loop: false, inputs, outputs };
    let operands: Vec<Value> = (1..=count).map(|at| cx.value(at)).collect::<Result<_, _>>()?;
    let batch = operands.last().and_then(|value| value.shape().first().copied()).unwrap_or(0);
    if batch == 0 || operands.iter().any(|value| value.shape().first() != Some(&batch)) {
        return Err(OnnxError::operand(1, "expected the same batch for all operands"));
    }
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for element in 0..batch {
        let mut own = Vec::new();
        for value in &operands {
            let row = cx.taken(value, 0, &[element])?;
            let shape = row.shape()[1..].to_vec();
            own.push(cx.reshaped(&row, &shape)?);
        }
        let scanned = own.split_off(carried);
        let kept = operands.iter().chain(rows.iter().flatten()).cloned().collect();
        rows.push(cx.keeping(kept, |cx| steps.evaluated(cx, 0, own, &scanned))?);
    }
    let mut results = Vec::new();
    for at in 0..steps.body.outputs.len() {
        let mut parts = Vec::new();
        for row in &rows {
            let value = &row[at];
            parts.push(cx.reshaped(value, &[&[1], value.shape()].concat())?);
        }
        results.push(concatenated(cx, &parts, 0)?);
    }
    Ok(results)
}
