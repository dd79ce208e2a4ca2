//! Loops as scans of the graph, whose bodies are traced once.

use arrayjit_tensor::{
    Tensor,
    low_level::{self, Argument},
};
use tnode::{DType, HostArray};

use super::{
    context::{Lowered, NodeContext},
    loop_node::{LoopNode, StepResults, Walked, known},
};
use crate::{
    budget::bytes_of,
    error::{OnnxError, Result},
    shape::axis,
    value::Value,
};

/// The most steps of a scan.
const MOST_SCANNED: usize = 1 << 32;

/// The most memory for the rows of a loop that may end before its last step: all of it is copied to the host.
const MOST_ROWS: u64 = 4 << 20;

impl LoopNode {
    /// The results of one scan of the graph. It is an error if a step needs values on the host, if steps
    /// differ in their shapes, or if the loop may end early.
    pub(super) fn scanned(
        &self,
        cx: &mut NodeContext<'_>,
        steps: usize,
        state: &[Value],
        walked: &[Walked],
    ) -> Lowered {
        let (last, rows) = self.scan(cx, steps, false, state, walked)?;
        // As many as a walk over each step takes.
        cx.steps(steps.saturating_mul(self.parts()))?;
        self.results(cx, values(last), values(rows))
    }

    /// The results of one scan that ends behind the first step whose condition is false.
    ///
    /// It has at most as many steps as the budget has left. If all of them run, the host finds out and fails.
    /// The host also cuts the rows, so that they have the steps that did run.
    pub(super) fn scanned_while(
        &self,
        cx: &mut NodeContext<'_>,
        most: usize,
        state: &[Value],
        walked: &[Walked],
    ) -> Lowered {
        if !self.is_loop || !cx.spares_steps() {
            return Err(OnnxError::Case("a scan that may end early".into()));
        }
        let allowed = usize::try_from(cx.steps_left() / self.parts() as u64).unwrap_or(MOST_SCANNED);
        let steps = most.min(allowed);
        // The loop carries the number of steps and whether it goes on, behind its own state.
        let more = [HostArray::from_slice(&[0_i64], [])?, HostArray::from_bytes(DType::Bool, [], &[1])?];
        let state = [state, &more.map(known)].concat();
        let (last, rows) = self.scan(cx, steps, true, &state, walked)?;
        let (mut last, mut rows) = (values(last), values(rows));
        let decisive = last.split_off(state.len() - 2);
        if steps < most || !rows.is_empty() {
            let limit = (steps < most).then_some((steps * self.parts()) as u64);
            let kept = last.clone();
            let operands = [decisive, rows].concat();
            rows = cx.keeping(kept, |cx| {
                cx.on_host(&operands, move |arrays| {
                    let [count, goes_on, rows @ ..] = arrays else { return Ok(Vec::new()) };
                    if let Some(most) = limit
                        && goes_on.values() != [0.0]
                    {
                        return Err(OnnxError::Limit { limit: "steps", needed: most + 1, most });
                    }
                    let count = count.values().first().map_or(0, |&count| count as usize);
                    Ok(rows.iter().map(|rows| rows.slice(0, 0..count)).collect::<Result<_, _>>()?)
                })
            })?;
        }
        self.results(cx, last, rows)
    }

    /// The number of nodes and constants that a step evaluates, and itself.
    fn parts(&self) -> usize {
        2 + self.body.nodes.len() + self.body.initializers.len()
    }

    /// The last state and the rows of one scan. If it may end, the last two values of the state are the
    /// number of steps and whether the loop goes on.
    fn scan(
        &self,
        cx: &mut NodeContext<'_>,
        steps: usize,
        may_end: bool,
        state: &[Value],
        walked: &[Walked],
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        if !(2..=MOST_SCANNED).contains(&steps) {
            return Err(OnnxError::Case(format!("a scan of {steps} steps")));
        }
        let initial = cx.tensors(state)?;
        let arrays = walked.iter().map(|walked| cx.tensor(&walked.value)).collect::<Result<Vec<_>, _>>()?;
        let initial: Vec<Argument<'_>> = initial.iter().map(Argument::Tensor).collect();
        let call = cx.call();
        let graph = cx.current().clone();
        graph.scan(steps).run_all(may_end, &initial, |step, mut carried| {
            let own = if may_end { carried.split_off(carried.len() - 2) } else { Vec::new() };
            let mut inputs = Vec::new();
            if self.is_loop {
                let goes_on = HostArray::from_bytes(DType::Bool, [], &[1])?;
                inputs = vec![Value::Lazy(step.number()?), known(goes_on)];
            }
            inputs.extend(values(carried));
            for (array, walked) in arrays.iter().zip(walked) {
                let (array, axis) = (Argument::Tensor(array), walked.axis as isize);
                inputs.push(Value::Lazy(step.slice_from(call, array, axis, walked.is_reverse)?));
            }
            let StepResults { condition, mut state, rows } = self.step(cx, inputs)?;
            let mut goes_on = None;
            if let (Some(condition), [count, _]) = (&condition, &own[..]) {
                let condition = cx.reshaped(condition, &[])?;
                state.extend([Value::Lazy((count + 1)?), condition.clone()]);
                goes_on = Some(cx.tensor(&condition)?);
            } else if condition.is_some_and(|value| value.known().is_none_or(|known| known.ints() == [0])) {
                return Err(OnnxError::Case("a condition that steps change".into()));
            }
            self.reserve_rows(cx, steps, may_end, &rows)?;
            let reverse = self.outputs.iter().map(|along| along.is_reverse);
            let rows = cx.tensors(&rows)?.into_iter().zip(reverse).collect();
            Ok::<_, OnnxError>(low_level::StepResults { state: cx.tensors(&state)?, rows, goes_on })
        })
    }

    fn reserve_rows(
        &self,
        cx: &mut NodeContext<'_>,
        steps: usize,
        may_end: bool,
        rows: &[Value],
    ) -> Result<()> {
        let shape = |row: &Value| [&[steps], row.shape()].concat();
        let bytes: u64 = rows.iter().map(|row| bytes_of(row.dtype(), &shape(row))).sum();
        if may_end && bytes > MOST_ROWS {
            return Err(OnnxError::Case(format!("{bytes} bytes of rows in a loop that may end early")));
        }
        rows.iter().try_for_each(|row| cx.reserve(row.dtype(), &shape(row)))
    }

    /// The results of the node: the last state, and rows whose first axis moves to where it belongs.
    fn results(&self, cx: &mut NodeContext<'_>, last: Vec<Value>, rows: Vec<Value>) -> Lowered {
        let mut results = last;
        for (rows, along) in rows.into_iter().zip(&self.outputs) {
            let mut order: Vec<usize> = (1..rows.rank()).collect();
            order.insert(axis(along.axis, rows.rank())?, 0);
            results.push(cx.permuted(&rows, &order)?);
        }
        Ok(results)
    }
}

fn values(tensors: Vec<Tensor>) -> Vec<Value> {
    tensors.into_iter().map(Value::Lazy).collect()
}
