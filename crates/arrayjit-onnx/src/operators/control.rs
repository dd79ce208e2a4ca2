//! Branches and loops.

use std::sync::Arc;

use super::{
    context::{Lowered, NodeContext},
    layout::concatenated,
    loop_node::{LoopNode, ScanAxis},
    operator::{Operator, list_op, op},
};
use crate::{
    error::{OnnxError, Result},
    ir::ModelGraph,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("If", 1, branch).sized(),
    list_op("Loop", 1, repeated),
    op("Scan", 9, scan),
    op("Scan", 8, batched_scan),
];

fn branch(cx: &mut NodeContext<'_>) -> Lowered {
    let condition = cx.host(0)?;
    if condition.array.num_values() != 1 {
        return Err(OnnxError::operand(0, "expected one element"));
    }
    let name = if condition.ints() == [0] { "else_branch" } else { "then_branch" };
    let graph = cx.graph(name)?.clone();
    cx.subgraph(&graph, Vec::new())
}

fn repeated(cx: &mut NodeContext<'_>) -> Lowered {
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

/// The axes of `count` scanned operands or results.
fn scan_axes(cx: &NodeContext<'_>, kind: &str, count: usize) -> Result<Vec<ScanAxis>> {
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
fn scan_parts(cx: &NodeContext<'_>, operands: usize) -> Result<(Arc<ModelGraph>, usize, usize)> {
    let graph = cx.graph("body")?.clone();
    let scanned = usize::try_from(cx.int_or("num_scan_inputs", 0)?).unwrap_or(usize::MAX);
    let carried = operands.checked_sub(scanned);
    let carried = carried.ok_or_else(|| OnnxError::attribute("num_scan_inputs", "at most the operands"))?;
    if graph.outputs.len() < carried {
        return Err(OnnxError::attribute("body", "an output for each carried value"));
    }
    Ok((graph, carried, scanned))
}

fn scan(cx: &mut NodeContext<'_>) -> Lowered {
    let (graph, carried, scanned) = scan_parts(cx, cx.inputs())?;
    let collected = graph.outputs.len() - carried;
    let (inputs, outputs) = (scan_axes(cx, "input", scanned)?, scan_axes(cx, "output", collected)?);
    let mut state = cx.values()?;
    let operands = state.split_off(carried);
    LoopNode { body: graph, is_loop: false, inputs, outputs }.evaluated(cx, 0, state, &operands)
}

/// The first version scans each element of a batch for itself.
fn batched_scan(cx: &mut NodeContext<'_>) -> Lowered {
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
