//! Plans: the routines of a model for one set of input shapes, and the decisions between them.

use std::sync::Arc;

use arrayjit_tensor::Executable;
use tnode::HostArray;

use crate::{
    error::{NodeProblem, OnnxError},
    host::HostValue,
};

/// The most different values of one read, or shapes of one step on the host, that a plan keeps.
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

/// Computes arrays on the host.
pub(crate) type HostFunction =
    Arc<dyn Fn(&[Arc<HostArray>]) -> Result<Vec<HostArray>, NodeProblem> + Send + Sync>;

/// A step that the host computes at each run. The trace depends on the shapes of its results, not on their
/// values.
#[derive(Clone)]
pub(crate) struct HostStep {
    pub(crate) function: HostFunction,
    pub(crate) operands: Vec<Output>,
    /// The name, the operator and the version of its set, for errors.
    pub(crate) node: (String, &'static str, i64),
}

impl HostStep {
    /// Computes the results and appends them to the slots. Returns their shapes.
    pub(crate) fn run(&self, slots: &mut Vec<Arc<HostArray>>) -> Result<Shapes, NodeProblem> {
        let missing = || NodeProblem::Other("a slot has no values".into());
        let operand = |operand: &Output| match operand {
            Output::Known(array) => Ok(array.clone()),
            Output::Slot(slot) => slots.get(*slot).cloned().ok_or_else(missing),
        };
        let operands = self.operands.iter().map(operand).collect::<Result<Vec<_>, _>>()?;
        let results = (self.function)(&operands)?;
        let shapes = results.iter().map(|array| array.dims().to_vec()).collect();
        slots.extend(results.into_iter().map(Arc::new));
        Ok(shapes)
    }
}

/// The shapes of the results of a step on the host.
pub(crate) type Shapes = Vec<Vec<usize>>;

/// An event of a run: a decision of the host, a step on it, or the run of a segment.
#[derive(Clone)]
pub(crate) enum Event {
    /// The trace depends on the values of a slot.
    Read { slot: usize, values: Arc<HostArray> },
    /// The host computes the next slots, which had these shapes.
    Host { step: Arc<HostStep>, shapes: Shapes },
    /// A segment runs; its results are the next slots.
    Run(Arc<Segment>),
}

/// A result of a model, or an operand of a step on the host.
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
    /// The host computes slots, and the rest depends on their shapes.
    Host { step: Arc<HostStep>, branches: Vec<(Shapes, Plan)> },
    /// A segment runs.
    Run { segment: Arc<Segment>, next: Box<Plan> },
    /// The outputs are known.
    Done(Vec<Output>),
}

impl Plan {
    /// The plan after an event, added if it is new.
    fn after(&mut self, event: &Event) -> &mut Plan {
        match event {
            Event::Run(segment) if !matches!(self, Plan::Run { .. }) => {
                *self = Plan::Run { segment: segment.clone(), next: Box::default() };
            }
            Event::Read { slot, .. } if !matches!(self, Plan::Read { .. }) => {
                *self = Plan::Read { slot: *slot, branches: Vec::new() };
            }
            Event::Host { step, .. } if !matches!(self, Plan::Host { .. }) => {
                *self = Plan::Host { step: step.clone(), branches: Vec::new() };
            }
            _ => {}
        }
        match (self, event) {
            (Plan::Read { branches, .. }, Event::Read { values, .. }) => {
                branch(branches, values, |other| other.bytes() == values.bytes())
            }
            (Plan::Host { branches, .. }, Event::Host { shapes, .. }) => {
                branch(branches, shapes, |other| other == shapes)
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
                Plan::Host { step, branches } => {
                    let shapes = step.run(slots).map_err(|problem| {
                        let (name, operator, opset) = &step.node;
                        OnnxError::at_node((name, operator, *opset), problem)
                    })?;
                    events.push(Event::Host { step: step.clone(), shapes: shapes.clone() });
                    let Some((_, next)) = branches.iter().find(|(other, _)| *other == shapes) else {
                        return Ok(None);
                    };
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

/// The branch of a decision, added if it is new. Then the oldest one goes if there are too many.
fn branch<'a, K: Clone>(
    branches: &'a mut Vec<(K, Plan)>,
    key: &K,
    is_same: impl Fn(&K) -> bool,
) -> &'a mut Plan {
    let at = branches.iter().position(|(other, _)| is_same(other)).unwrap_or_else(|| {
        if branches.len() == MOST_BRANCHES {
            branches.remove(0);
        }
        branches.push((key.clone(), Plan::Unknown));
        branches.len() - 1
    });
    &mut branches[at].1
}
