//! Branches and loops. The host decides them; bodies are traced in place.

use std::sync::Arc;

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

pub(super) static OPERATORS: &[Operator] =
    &[op("If", 1, branch), list_op("Loop", 1, repeated), op("Scan", 9, scan), op("Scan", 8, batched_scan)];

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
    let mut goes_on = match cx.optional(1) {
        Some(_) => cx.host(1)?.ints() != [0],
        None => true,
    };
    let body = cx.graph("body")?.clone();
    let carried = cx.inputs().saturating_sub(2);
    let mut state: Vec<Value> = (0..carried).map(|at| cx.value(at + 2)).collect::<Result<_, _>>()?;
    let scans = body.outputs.len().checked_sub(carried + 1);
    let scans = scans.ok_or_else(|| OnnxError::attribute("body", "an output for each carried value"))?;
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let step = cx.keeping(Vec::new(), |cx| -> Result<i64> {
        let mut step = 0;
        while goes_on && step < most {
            cx.steps(1)?;
            let inputs = loop_inputs(step, &state)?;
            let mut results = cx.subgraph(&body, inputs)?;
            let values = results.split_off(carried + 1);
            let condition = results.remove(0);
            state = results;
            cx.keep(values.clone());
            for (list, value) in collected.iter_mut().zip(values) {
                list.push(value);
            }
            goes_on = cx.keeping(state.clone(), |cx| cx.host_of(&condition))?.ints() != [0];
            step += 1;
        }
        Ok(step)
    })?;
    if step == 0 {
        let inputs = loop_inputs(0, &state)?;
        return not_stepped(cx, &body, state, inputs, &vec![ScanAxis::default(); scans]);
    }
    stacked(cx, state, collected, &[])
}

/// The inputs of the body of a loop: the number of the step, the condition, and the state.
fn loop_inputs(step: i64, state: &[Value]) -> Result<Vec<Value>> {
    let index = HostArray::from_slice(&[step], [])?;
    let condition = HostArray::from_bytes(DType::Bool, [], &[1])?;
    let known = |array| Value::Known(HostValue::new(array, false));
    Ok([&[known(index), known(condition)], state].concat())
}

/// The results of a loop without a step: the initial state, and no rows of what the body collects. If the
/// body does not declare the shape of a row, it is that of a step, whose inputs would be these.
fn not_stepped(
    cx: &mut NodeContext<'_, '_>,
    body: &ModelGraph,
    state: Vec<Value>,
    inputs: Vec<Value>,
    axes: &[ScanAxis],
) -> Lowered {
    let outputs = &body.outputs[body.outputs.len() - axes.len()..];
    let declared: Vec<Option<(DType, Vec<usize>)>> = outputs.iter().map(declared).collect();
    let traced = match declared.contains(&None) {
        // A step that fails on the initial state has no shapes, but is no step of the model either.
        true => cx.keeping(state.clone(), |cx| cx.subgraph(body, inputs)).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut traced = traced.iter().rev().take(axes.len()).rev();
    let mut results = state;
    for ((info, declared), along) in outputs.iter().zip(declared).zip(axes) {
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

/// A scan without its operands.
struct ScanBody {
    graph: Arc<ModelGraph>,
    inputs: Vec<ScanAxis>,
    outputs: Vec<ScanAxis>,
}

impl ScanBody {
    /// Walks along the axes of `inputs` from the initial state.
    fn evaluated(&self, cx: &mut NodeContext<'_, '_>, mut state: Vec<Value>, inputs: &[Value]) -> Lowered {
        let carried = state.len();
        let mut axes = Vec::new();
        for (input, along) in inputs.iter().zip(&self.inputs) {
            axes.push((axis(along.axis, input.rank())?, along.is_reverse));
        }
        let size = |(input, &(at, _)): (&Value, &(usize, bool))| input.shape()[at];
        let steps = inputs.iter().zip(&axes).map(size).min().unwrap_or(0);
        if steps == 0 {
            let mut operands = state.clone();
            for (input, &(at, _)) in inputs.iter().zip(&axes) {
                let mut shape = input.shape().to_vec();
                shape.remove(at);
                operands.push(cx.filled(input.dtype(), &shape, "0")?);
            }
            return not_stepped(cx, &self.graph, state, operands, &self.outputs);
        }
        let mut collected: Vec<Vec<Value>> = vec![Vec::new(); self.outputs.len()];
        cx.keeping(inputs.to_vec(), |cx| -> Result<()> {
            for step in 0..steps {
                cx.steps(1)?;
                let mut operands = std::mem::take(&mut state);
                for (input, &(at, is_reverse)) in inputs.iter().zip(&axes) {
                    let position = if is_reverse { input.shape()[at] - 1 - step } else { step };
                    let row = cx.taken(input, at, &[position])?;
                    let mut shape = row.shape().to_vec();
                    shape.remove(at);
                    operands.push(cx.reshaped(&row, &shape)?);
                }
                let mut results = cx.subgraph(&self.graph, operands)?;
                let values = results.split_off(carried);
                state = results;
                cx.keep(values.clone());
                for (list, value) in collected.iter_mut().zip(values) {
                    list.push(value);
                }
            }
            Ok(())
        })?;
        stacked(cx, state, collected, &self.outputs)
    }
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
    ScanBody { graph, inputs, outputs }.evaluated(cx, state, &operands)
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
    let body = ScanBody { graph, inputs, outputs: vec![ScanAxis::default(); collected] };
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
        rows.push(cx.keeping(kept, |cx| body.evaluated(cx, own, &scanned))?);
    }
    let mut results = Vec::new();
    for at in 0..body.graph.outputs.len() {
        let mut parts = Vec::new();
        for row in &rows {
            let value = &row[at];
            parts.push(cx.reshaped(value, &[&[1], value.shape()].concat())?);
        }
        results.push(concatenated(cx, &parts, 0)?);
    }
    Ok(results)
}
