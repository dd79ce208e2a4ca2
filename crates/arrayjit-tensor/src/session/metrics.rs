//! The loss and the metrics of steps, which stay on the device until they are read.

use std::sync::{Arc, atomic::Ordering};

use arrayjit::HostArray;

use crate::{
    error::{Result, TensorError},
    executable::StartedRun,
    session::{
        BatchValues, SessionCore,
        graphs::{EvaluationGraph, StepGraph},
    },
};

/// The number of runs of a graph whose metrics are on the device.
pub(super) const ROWS: usize = 64;

/// A step that was started. It need not be kept.
pub struct StartedStep {
    pub(super) core: Arc<SessionCore>,
    pub(super) graph: Arc<StepGraph>,
    /// The number of the run of the graph, from 0.
    pub(super) run: u64,
    pub(super) number: u64,
}

/// The loss and the metrics of a step, or their means over batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    step: u64,
    values: Vec<(String, f64)>,
}

impl StartedStep {
    /// The number of the step, from 0.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The loss and the metrics, after the step. Waits for all steps that were started.
    ///
    /// # Errors
    /// A loss that is not finite, of this or an earlier step; 64 later steps of the same shapes, which have
    /// overwritten the metrics; an error of the device.
    pub fn metrics(&self) -> Result<Metrics> {
        let read = self.core.settle()?;
        match read.into_iter().find(|metrics| metrics.step == self.number) {
            Some(metrics) => Ok(metrics),
            None => self.record().metrics(&self.graph.read()?),
        }
    }

    /// The step without the session.
    pub(super) fn record(&self) -> StepRecord {
        StepRecord { graph: self.graph.clone(), run: self.run, number: self.number }
    }
}

/// A step whose row of metrics may be read.
#[derive(Clone)]
pub(super) struct StepRecord {
    pub(super) graph: Arc<StepGraph>,
    pub(super) run: u64,
    pub(super) number: u64,
}

impl StepGraph {
    /// The rows of the last runs. Waits for them.
    pub(super) fn read(&self) -> Result<HostArray> {
        Ok(self.context().to_host(self.rows.node())?)
    }
}

impl StepRecord {
    /// The metrics in the rows of the graph.
    pub(super) fn metrics(&self, rows: &HostArray) -> Result<Metrics> {
        let values = self.row(rows)?;
        let values = self.graph.names.iter().cloned().zip(values).collect();
        Ok(Metrics { step: self.number, values })
    }

    /// Whether neither the loss was not finite nor the step was guarded.
    pub(super) fn is_finite(&self, rows: &HostArray) -> Result<bool> {
        let row = self.row(rows)?;
        Ok(row.first().is_some_and(|loss| loss.is_finite()) && row.last().is_some_and(|flag| *flag == 1.0))
    }

    fn row(&self, rows: &HostArray) -> Result<Vec<f64>> {
        if self.graph.runs.load(Ordering::SeqCst) > self.run + ROWS as u64 {
            return Err(TensorError::Overwritten { step: self.number });
        }
        let columns = self.graph.rows.shape().last().copied().unwrap_or_default();
        let at = (self.run % ROWS as u64) as usize * columns;
        Ok(rows.values().get(at..at + columns).unwrap_or_default().to_vec())
    }
}

impl Metrics {
    /// The number of the step, from 0; for means, the number of steps before them.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The loss, as computed before the update.
    pub fn loss(&self) -> f64 {
        self.get("loss").unwrap_or(f64::NAN)
    }

    /// The metric of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// All values by name: the loss, then the metrics in the order of the closure.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// A batch of an evaluation that was started.
pub(super) struct EvaluatedBatch {
    pub(super) graph: Arc<EvaluationGraph>,
    pub(super) run: StartedRun,
    pub(super) values: BatchValues,
}

impl EvaluatedBatch {
    /// The loss and the metrics. Waits for them.
    fn metrics(&self, step: u64) -> Result<Metrics> {
        let value = |(at, name): (usize, &String)| {
            let value = self.run.result(at)?.values().first().copied();
            Ok((name.clone(), value.unwrap_or(f64::NAN)))
        };
        let values = self.graph.names.iter().enumerate().map(value).collect::<Result<_>>()?;
        Ok(Metrics { step, values })
    }
}

/// The mean of metrics over batches of several sizes.
pub(super) struct WeightedMean<'a> {
    core: &'a SessionCore,
    sum: Metrics,
    rows: f64,
    /// The number of batches so far.
    batches: usize,
}

impl WeightedMean<'_> {
    pub(super) fn new(core: &SessionCore, step: u64) -> WeightedMean<'_> {
        WeightedMean { core, sum: Metrics { step, values: Vec::new() }, rows: 0.0, batches: 0 }
    }

    /// Adds the metrics of batches. Waits for them.
    pub(super) fn add(&mut self, evaluated: &[EvaluatedBatch]) -> Result<()> {
        let step = self.sum.step;
        evaluated.iter().try_for_each(|batch| self.add_batch(&batch.metrics(step)?, &batch.values))
    }

    fn add_batch(&mut self, metrics: &Metrics, values: &BatchValues) -> Result<()> {
        if let Some((metric, _)) = metrics.iter().find(|(_, value)| !value.is_finite()) {
            let cause = self.core.evaluation_cause(values, self.sum.step, metric)?;
            let (metric, batch) = (metric.to_owned(), self.batches);
            return Err(TensorError::NotFiniteEvaluation { metric, batch, cause });
        }
        for (name, value) in metrics.iter() {
            let weighted = value * values.rows() as f64;
            match self.sum.values.iter_mut().find(|(other, _)| other == name) {
                Some((_, sum)) => *sum += weighted,
                None => self.sum.values.push((name.to_owned(), weighted)),
            }
        }
        self.rows += values.rows() as f64;
        self.batches += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Metrics> {
        if self.batches == 0 {
            return Err(TensorError::NoBatches);
        }
        self.sum.values.iter_mut().for_each(|(_, sum)| *sum /= self.rows);
        Ok(self.sum)
    }
}
