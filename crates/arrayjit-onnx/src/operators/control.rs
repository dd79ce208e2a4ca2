//! Branches and loops. The host decides them; bodies are traced in place.

use tnode::HostArray;

use super::{Operator, layout::concatenated, op};
use crate::{
    context::{Lowered, NodeContext},
    error::NodeProblem,
    host::HostValue,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] =
    &[op("If", 1, branch), op("Loop", 1, repeated), op("Scan", 9, scan)];

fn branch(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let condition = cx.host(0)?;
    if condition.array.num_values() != 1 {
        return Err(NodeProblem::operand(0, "expected one element"));
    }
    let name = if condition.ints() == [0] { "else_branch" } else { "then_branch" };
    let graph = cx.graph(name)?.clone();
    cx.subgraph(&graph, Vec::new())
}

fn repeated(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let most = cx.optional_ints(0)?.and_then(|values| values.first().copied()).unwrap_or(i64::MAX);
    let mut goes_on = match cx.optional(1) {
        Some(_) => cx.host(1)?.ints() != [0],
        None => true,
    };
    let body = cx.graph("body")?.clone();
    let carried = cx.inputs().saturating_sub(2);
    let mut state: Vec<Value> = (0..carried).map(|at| cx.value(at + 2)).collect::<Result<_, _>>()?;
    let scans = body.outputs.len().checked_sub(carried + 1);
    let scans = scans.ok_or_else(|| NodeProblem::attribute("body", "an output for each carried value"))?;
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let mut step = 0;
    while goes_on && step < most {
        cx.loop_step()?;
        let index = Value::Known(HostValue::new(HostArray::from_slice(&[step], [])?, false));
        let condition = HostArray::from_bytes(tnode::DType::Bool, [], &[1])?;
        let condition = Value::Known(HostValue::new(condition, false));
        let inputs = [vec![index, condition], state].concat();
        let kept = collected.iter().flatten().cloned().collect();
        let mut results = cx.keeping(kept, |cx| cx.subgraph(&body, inputs))?;
        let values = results.split_off(carried + 1);
        let condition = results.remove(0);
        state = results;
        for (list, value) in collected.iter_mut().zip(values) {
            list.push(value);
        }
        let kept = state.iter().chain(collected.iter().flatten()).cloned().collect();
        goes_on = cx.keeping(kept, |cx| cx.host_of(&condition))?.ints() != [0];
        step += 1;
    }
    stacked(cx, &body, state, collected, 0)
}

/// The final state, and the collected values of each step stacked along a new axis.
fn stacked(
    cx: &mut NodeContext<'_, '_, '_>,
    body: &crate::ir::ModelGraph,
    state: Vec<Value>,
    collected: Vec<Vec<Value>>,
    first: usize,
) -> Lowered {
    let mut results = state;
    for (at, values) in collected.into_iter().enumerate() {
        if values.is_empty() {
            let info = body.outputs.iter().rev().nth(first + at);
            let dtype = info.and_then(|info| info.dtype).unwrap_or(tnode::DType::F32);
            results.push(cx.empty(dtype, &[0])?);
            continue;
        }
        let mut rows = Vec::new();
        for value in values {
            let shape = [&[1], value.shape()].concat();
            rows.push(cx.reshaped(&value, &shape)?);
        }
        results.push(concatenated(cx, &rows, 0)?);
    }
    Ok(results)
}

fn scan(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let body = cx.graph("body")?.clone();
    let scanned = usize::try_from(cx.int_or("num_scan_inputs", 0)?).unwrap_or(0);
    let carried = cx.inputs().checked_sub(scanned);
    let carried = carried.ok_or_else(|| NodeProblem::attribute("num_scan_inputs", "at most the operands"))?;
    let names = ["scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"];
    for name in names {
        if cx.ints(name)?.is_some_and(|values| values.iter().any(|&value| value != 0)) {
            return Err(NodeProblem::Unsupported(format!("attribute `{name}`")));
        }
    }
    let mut state: Vec<Value> = (0..carried).map(|at| cx.value(at)).collect::<Result<_, _>>()?;
    let inputs: Vec<Value> = (carried..cx.inputs()).map(|at| cx.value(at)).collect::<Result<_, _>>()?;
    let steps = inputs.first().and_then(|value| value.shape().first().copied()).unwrap_or(0);
    let scans = body.outputs.len().checked_sub(carried);
    let scans = scans.ok_or_else(|| NodeProblem::attribute("body", "an output for each carried value"))?;
    let mut collected: Vec<Vec<Value>> = vec![Vec::new(); scans];
    for step in 0..steps {
        cx.loop_step()?;
        let mut operands = state;
        for input in &inputs {
            let row = cx.taken(input, 0, &[step])?;
            let shape = row.shape().get(1..).unwrap_or_default().to_vec();
            operands.push(cx.reshaped(&row, &shape)?);
        }
        let kept = inputs.iter().chain(collected.iter().flatten()).cloned().collect();
        let mut results = cx.keeping(kept, |cx| cx.subgraph(&body, operands))?;
        let values = results.split_off(carried);
        state = results;
        for (list, value) in collected.iter_mut().zip(values) {
            list.push(value);
        }
    }
    stacked(cx, &body, state, collected, 0)
}
