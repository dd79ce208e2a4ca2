//! Steps whose metrics were not read yet, with their batches.

use std::{collections::VecDeque, sync::Arc};

use arrayjit::HostArray;

use crate::{
    error::{Result, TensorError},
    parameter::locked,
    session::{
        BatchValues, Metrics, SessionCore,
        graphs::StepGraph,
        metrics::{ROWS, StepRecord},
    },
};

/// A step whose metrics were not read yet. The batch is kept for messages about values that are not finite.
#[derive(Clone)]
pub(super) struct PendingStep {
    pub(super) step: StepRecord,
    pub(super) values: BatchValues,
}

/// The steps whose metrics were not read yet, at most as many as there are rows.
#[derive(Default)]
pub(super) struct PendingSteps {
    steps: VecDeque<PendingStep>,
    next_number: u64,
}

impl PendingSteps {
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= ROWS
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(super) fn push(&mut self, step: PendingStep) {
        self.next_number = step.step.number + 1;
        self.steps.push_back(step);
    }

    /// Forgets all steps; the next one has this number.
    pub(super) fn restart(&mut self, next_number: u64) {
        self.steps.clear();
        self.next_number = next_number;
    }
}

impl SessionCore {
    /// Reads the metrics of all pending steps, in order, and forgets the steps. After an error, the session
    /// may go on.
    pub(super) fn settle(&self) -> Result<Vec<Metrics>> {
        self.read_pending().map_err(|error| match error {
            TensorError::NotFinite { .. } | TensorError::Overwritten { .. } => error,
            _ => self.rank_failure().unwrap_or(error),
        })
    }

    fn read_pending(&self) -> Result<Vec<Metrics>> {
        // Another thread that waits for a step must not stop at the same value again.
        let _settling = locked(&self.settling);
        let steps: Vec<PendingStep> = locked(&self.pending).steps.iter().cloned().collect();
        let mut read: Vec<(Arc<StepGraph>, HostArray)> = Vec::new();
        let mut all = Vec::new();
        for pending in &steps {
            let graph = &pending.step.graph;
            if !read.iter().any(|(other, _)| Arc::ptr_eq(other, graph)) {
                read.push((graph.clone(), graph.read()?));
            }
            let Some((_, rows)) = read.iter().find(|(other, _)| Arc::ptr_eq(other, graph)) else { continue };
            if !pending.step.is_finite(rows)? {
                return Err(self.stop(pending));
            }
            all.push(pending.step.metrics(rows)?);
        }
        let last = steps.last().map(|pending| pending.step.number);
        locked(&self.pending).steps.retain(|pending| Some(pending.step.number) > last);
        Ok(all)
    }

    /// The error of a step whose loss is not finite. Later steps are forgotten, since they changed nothing.
    fn stop(&self, pending: &PendingStep) -> TensorError {
        let step = pending.step.number;
        let cause = self.step_cause(pending);
        locked(&self.pending).steps.clear();
        match (cause, self.state.clear_halt()) {
            (Ok(cause), Ok(())) => TensorError::NotFinite { step, cause },
            (Err(error), _) => error,
            (_, Err(error)) => error,
        }
    }
}
