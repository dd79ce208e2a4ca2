//! Plans: the routines of a model for one set of input shapes, and the decisions between them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrayjit_tensor::Executable;
use tnode::{DType, HostArray};

use crate::{
    error::{OnnxError, Result},
    extents::Extents,
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
    pub(crate) fn run(&self, slots: &mut Vec<Arc<HostArray>>) -> Result<()> {
        let mut inputs: Vec<(&str, Arc<HostArray>)> =
            self.constants.iter().map(|(name, value)| (name.as_str(), value.array.clone())).collect();
        for (name, slot) in &self.inputs {
            let array = slots.get(*slot).ok_or_else(|| OnnxError::invalid("plan", "a slot has no values"))?;
            inputs.push((name, array.clone()));
        }
        let results = self.executable.run_shared(&inputs)?;
        slots.extend(results.into_iter().map(Arc::new));
        Ok(())
    }
}

/// Computes arrays on the host.
pub(crate) type HostFunction = Arc<dyn Fn(&[Arc<HostArray>]) -> Result<Vec<HostArray>> + Send + Sync>;

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
    pub(crate) fn run(&self, slots: &mut Vec<Arc<HostArray>>) -> Result<Shapes> {
        let missing = || OnnxError::Invalid("a slot has no values".into());
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

/// The type and the axes of each input.
pub(crate) type Signature = Vec<(DType, Extents)>;

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

/// The events of all runs so far with one set of input shapes, as a tree. Threads follow and extend it at the
/// same time; cloning is cheap, and a clone is the same place of the same tree.
#[derive(Clone, Default)]
pub(crate) struct Plan(Arc<PlanPlace>);

#[derive(Default)]
struct PlanPlace {
    step: Mutex<PlanStep>,
    /// Held by the call that finds out what comes here.
    tracing: Mutex<()>,
}

/// What comes at a place of a plan.
#[derive(Default)]
enum PlanStep {
    /// No run came here.
    #[default]
    Unknown,
    /// The rest depends on the values of a slot. The branch that was made last is the last.
    Read { slot: usize, branches: Vec<(Arc<HostArray>, Plan)> },
    /// The host computes slots, and the rest depends on their shapes.
    Host { step: Arc<HostStep>, branches: Vec<(Shapes, Plan)> },
    /// A segment runs.
    Run { segment: Arc<Segment>, next: Plan },
    /// The outputs are known.
    Done(Vec<Output>),
}

impl PlanStep {
    /// The places after this one.
    fn into_next(self) -> Vec<Plan> {
        match self {
            PlanStep::Read { branches, .. } => branches.into_iter().map(|(_, next)| next).collect(),
            PlanStep::Host { branches, .. } => branches.into_iter().map(|(_, next)| next).collect(),
            PlanStep::Run { next, .. } => vec![next],
            PlanStep::Unknown | PlanStep::Done(_) => Vec::new(),
        }
    }
}

/// Drops a chain of places one by one, so that its length does not exhaust the stack.
impl Drop for PlanPlace {
    fn drop(&mut self) {
        let taken = |place: &mut PlanPlace| {
            std::mem::take(place.step.get_mut().unwrap_or_else(PoisonError::into_inner)).into_next()
        };
        let mut next = taken(self);
        while let Some(plan) = next.pop() {
            if let Some(mut place) = Arc::into_inner(plan.0) {
                next.append(&mut taken(&mut place));
            }
        }
    }
}

/// How far a run came.
pub(crate) enum Reached {
    /// To the end.
    Outputs(Vec<Output>),
    /// To a place where no run came before.
    Unknown(Plan),
}

impl Plan {
    /// Waits until no other call finds out what comes here.
    pub(crate) fn tracing(&self) -> MutexGuard<'_, ()> {
        self.0.tracing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same place.
    pub(crate) fn is(&self, other: &Plan) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn step(&self) -> MutexGuard<'_, PlanStep> {
        self.0.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan after an event, added if it is new.
    fn after(&self, event: &Event) -> Plan {
        let mut step = self.step();
        match event {
            Event::Run(segment) if !matches!(*step, PlanStep::Run { .. }) => {
                *step = PlanStep::Run { segment: segment.clone(), next: Plan::default() };
            }
            Event::Read { slot, .. } if !matches!(*step, PlanStep::Read { .. }) => {
                *step = PlanStep::Read { slot: *slot, branches: Vec::new() };
            }
            Event::Host { step: computed, .. } if !matches!(*step, PlanStep::Host { .. }) => {
                *step = PlanStep::Host { step: computed.clone(), branches: Vec::new() };
            }
            _ => {}
        }
        match (&mut *step, event) {
            (PlanStep::Read { branches, .. }, Event::Read { values, .. }) => {
                branch(branches, values, |other| other.bytes() == values.bytes())
            }
            (PlanStep::Host { branches, .. }, Event::Host { shapes, .. }) => {
                branch(branches, shapes, |other| other == shapes)
            }
            (PlanStep::Run { next, .. }, _) => next.clone(),
            _ => self.clone(),
        }
    }

    /// Adds the events of a run from here on and its outputs.
    pub(crate) fn add(&self, events: &[Event], outputs: Vec<Output>) {
        let end = events.iter().fold(self.clone(), |plan, event| plan.after(event));
        *end.step() = PlanStep::Done(outputs);
    }

    /// Runs from here as far as the plan is known; `events` and `slots` get all that happens.
    pub(crate) fn run(&self, slots: &mut Vec<Arc<HostArray>>, events: &mut Vec<Event>) -> Result<Reached> {
        let mut plan = self.clone();
        loop {
            let event = match plan.event(slots) {
                Ok(event) => event,
                Err(reached) => return Ok(reached),
            };
            let event = event.happened(slots)?;
            plan = plan.after(&event);
            events.push(event);
        }
    }

    /// The event that comes here, without the shapes of a step on the host; or how far the run came.
    fn event(&self, slots: &[Arc<HostArray>]) -> Result<Event, Reached> {
        match &*self.step() {
            PlanStep::Done(outputs) => Err(Reached::Outputs(outputs.clone())),
            PlanStep::Run { segment, .. } => Ok(Event::Run(segment.clone())),
            PlanStep::Host { step, .. } => Ok(Event::Host { step: step.clone(), shapes: Shapes::new() }),
            PlanStep::Read { slot, .. } => match slots.get(*slot) {
                Some(values) => Ok(Event::Read { slot: *slot, values: values.clone() }),
                None => Err(Reached::Unknown(self.clone())),
            },
            PlanStep::Unknown => Err(Reached::Unknown(self.clone())),
        }
    }
}

impl Event {
    /// Runs the segment or the step on the host, whose results are the next slots.
    fn happened(self, slots: &mut Vec<Arc<HostArray>>) -> Result<Event> {
        match self {
            Event::Run(segment) => {
                segment.run(slots)?;
                Ok(Event::Run(segment))
            }
            Event::Host { step, .. } => {
                let shapes = step.run(slots).map_err(|problem| {
                    let (name, operator, opset) = &step.node;
                    OnnxError::at_node((name, operator, *opset), problem)
                })?;
                Ok(Event::Host { step, shapes })
            }
            Event::Read { .. } => Ok(self),
        }
    }
}

/// The branch of a decision, added if it is new. Then the oldest one goes if there are too many.
fn branch<K: Clone>(branches: &mut Vec<(K, Plan)>, key: &K, is_same: impl Fn(&K) -> bool) -> Plan {
    if let Some((_, plan)) = branches.iter().find(|(other, _)| is_same(other)) {
        return plan.clone();
    }
    if branches.len() == MOST_BRANCHES {
        branches.remove(0);
    }
    let plan = Plan::default();
    branches.push((key.clone(), plan.clone()));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_plan_is_dropped_on_a_small_stack() {
        let values = Arc::new(HostArray::from_slice(&[1f32], [1]).unwrap());
        let events: Vec<Event> =
            (0..200_000).map(|_| Event::Read { slot: 0, values: values.clone() }).collect();
        let plan = Plan::default();
        plan.add(&events, Vec::new());
        let mut slots = vec![values];
        assert!(matches!(plan.run(&mut slots, &mut Vec::new()), Ok(Reached::Outputs(_))));
        std::thread::Builder::new().stack_size(64 << 10).spawn(|| drop(plan)).unwrap().join().unwrap();
    }
}
