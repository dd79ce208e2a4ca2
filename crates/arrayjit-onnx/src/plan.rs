//! Plans: the routines of a model for one set of input shapes, and the decisions between them.

use std::sync::Arc;

use arrayjit_tensor::Executable;
use tnode::HostArray;

use crate::{error::OnnxError, host::HostValue};

/// The most different values of one read that a plan keeps.
const MOST_BRANCHES: usize = 64;

/// A part of a model without host steps: one compiled routine.
pub(crate) struct Segment {
    pub(crate) executable: Executable,
    /// The inputs of the routine and the slots that have their values.
    pub(crate) inputs: Vec<(String, usize)>,
    /// The inputs of the routine whose values are known.
    pub(crate) constants: Vec<(String, Arc<HostValue>)>,
}

impl Segment {
    /// Runs the routine and appends its results to the slots.
    pub(crate) fn run(&self, slots: &mut Vec<Arc<HostArray>>) -> Result<(), OnnxError> {
        let mut inputs: Vec<(&str, &HostArray)> =
            self.constants.iter().map(|(name, value)| (name.as_str(), &*value.array)).collect();
        for (name, slot) in &self.inputs {
            let array = slots.get(*slot).ok_or_else(|| OnnxError::invalid("plan", "a slot has no values"))?;
            inputs.push((name, array));
        }
        let results = self.executable.run(&inputs)?;
        slots.extend(results.into_iter().map(Arc::new));
        Ok(())
    }
}

/// An event of a run: a decision of the host or the run of a segment.
#[derive(Clone)]
pub(crate) enum Event {
    /// The trace depends on the values of a slot.
    Read { slot: usize, values: Arc<HostArray> },
    /// A segment runs; its results are the next slots.
    Run(Arc<Segment>),
}

/// A result of a model.
#[derive(Clone)]
pub(crate) enum Output {
    Slot(usize),
    Known(Arc<HostArray>),
}

/// The events of all runs so far with one set of input shapes, as a tree.
#[derive(Default)]
pub(crate) enum Plan {
    /// No run came here.
    #[default]
    Unknown,
    /// The rest depends on the values of a slot. The branch that was made last is the last.
    Read { slot: usize, branches: Vec<(Arc<HostArray>, Plan)> },
    /// A segment runs.
    Run { segment: Arc<Segment>, next: Box<Plan> },
    /// The outputs are known.
    Done(Vec<Output>),
}

impl Plan {
    /// The plan after an event, added if it is new.
    fn after(&mut self, event: &Event) -> &mut Plan {
        match event {
            Event::Run(segment) => {
                if !matches!(self, Plan::Run { .. }) {
                    *self = Plan::Run { segment: segment.clone(), next: Box::default() };
                }
            }
            Event::Read { slot, values } => {
                if !matches!(self, Plan::Read { .. }) {
                    *self = Plan::Read { slot: *slot, branches: Vec::new() };
                }
                if let Plan::Read { branches, .. } = self
                    && !branches.iter().any(|(other, _)| other.bytes() == values.bytes())
                {
                    if branches.len() == MOST_BRANCHES {
                        branches.remove(0);
                    }
                    branches.push((values.clone(), Plan::Unknown));
                }
            }
        }
        match (self, event) {
            (Plan::Read { branches, .. }, Event::Read { values, .. }) => {
                let found = branches.iter().position(|(other, _)| other.bytes() == values.bytes());
                let last = branches.len().saturating_sub(1);
                &mut branches[found.unwrap_or(last)].1
            }
            (Plan::Run { next, .. }, _) => next,
            (other, _) => other,
        }
    }

    /// Adds the events of a run and its outputs.
    pub(crate) fn add(&mut self, events: &[Event], outputs: Vec<Output>) {
        let mut plan = self;
        for event in events {
            plan = plan.after(event);
        }
        *plan = Plan::Done(outputs);
    }

    /// Runs as far as the plan is known. Returns the outputs if it is known to the end; `events` and `slots`
    /// have all that happened.
    pub(crate) fn run(
        &self,
        slots: &mut Vec<Arc<HostArray>>,
        events: &mut Vec<Event>,
    ) -> Result<Option<Vec<Output>>, OnnxError> {
        let mut plan = self;
        loop {
            plan = match plan {
                Plan::Unknown => return Ok(None),
                Plan::Done(outputs) => return Ok(Some(outputs.clone())),
                Plan::Run { segment, next } => {
                    segment.run(slots)?;
                    events.push(Event::Run(segment.clone()));
                    next
                }
                Plan::Read { slot, branches } => {
                    let Some(values) = slots.get(*slot).cloned() else { return Ok(None) };
                    let branch = branches.iter().find(|(other, _)| other.bytes() == values.bytes());
                    let Some((_, next)) = branch else { return Ok(None) };
                    events.push(Event::Read { slot: *slot, values });
                    next
                }
            };
        }
    }
}
