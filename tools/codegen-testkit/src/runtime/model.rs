//! A model of a device with injected faults: the value of each node, and for each node and stream the
//! failures that may have caused its failure.
//!
//! Faults are decided when a task is submitted, so the model knows of them as early as the runtime. It
//! detects an error without a fault, a value where there can be none, and a failure that spreads without a
//! dependency.

use std::{any::Any, sync::Arc};

use device_runtime::{Context, Device, DriverError, Event, Failure, FaultDevice, RunError, Stream};
use fastrand::Rng;
use tnode::TensorNode;

use super::hand_made::*;

/// Possible causes of a failure; empty if nothing failed.
pub(super) type Causes = Vec<Failure>;

/// The value of a node, or the reasons why it has none.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) elements: [i64; 3],
    pub(super) causes: Causes,
}

/// A device and its model.
pub(super) struct ModeledDevice {
    pub(super) device: Device,
    pub(super) fault: Arc<FaultDevice>,
    pub(super) nodes: Vec<TensorNode>,
    /// One context per stream; all of them share the same memory.
    pub(super) contexts: Vec<Context>,
    /// The causes of each stream's failure.
    pub(super) streams: Vec<Causes>,
    /// The value of each node.
    pub(super) values: Vec<Value>,
    /// Events, with the possible causes of their failure.
    pub(super) events: Vec<(Event, Causes)>,
    /// Objects that the program keeps until its end.
    pub(super) held: Vec<Box<dyn Any>>,
}

/// The reads and writes of a step.
#[derive(Default)]
pub(super) struct ProgramStep {
    pub(super) stream: usize,
    /// Positions of nodes of the device.
    pub(super) reads: Vec<usize>,
    pub(super) write: Option<(usize, [i64; 3])>,
    /// Whether the step is submitted in parts, so that an error may leave a part submitted.
    pub(super) in_parts: bool,
    /// The failure of the step's own code.
    pub(super) own: Option<Failure>,
    /// Failures on other devices that the step depends on.
    pub(super) foreign: Causes,
    /// Failures on other devices that the step may encounter on one of its possible paths.
    pub(super) on_the_way: Causes,
    /// The other device that runs tasks of the step.
    pub(super) other: Option<Arc<FaultDevice>>,
}

/// The effect of a step.
pub(super) struct StepResult {
    pub(super) event: Option<Event>,
    pub(super) held: Box<dyn Any>,
}

impl ModeledDevice {
    pub(super) fn is_lost(&self) -> bool {
        self.fault.counts().device_lost > 0
    }

    pub(super) fn stream(&self, stream: usize) -> &Stream {
        self.contexts[stream].stream()
    }

    /// Performs a step and compares its effect with the model.
    pub(super) fn step(
        &mut self,
        step: &ProgramStep,
        act: impl FnOnce(&Context) -> Result<Option<StepResult>, RunError>,
    ) {
        let failures = |fault: &FaultDevice| fault.failures().len();
        let (before, rejected) = (failures(&self.fault), self.fault.counts().out_of_memory);
        let before_there = step.other.as_deref().map_or(0, failures);
        let result = act(&self.contexts[step.stream]);
        if self.is_lost() {
            return;
        }
        let mut fresh: Causes = self.fault.failures().split_off(before);
        match result {
            Ok(done) => {
                fresh.extend(step.own.clone());
                self.accepted(step, &fresh);
                let Some(done) = done else { return };
                self.events.extend(done.event.map(|event| (event, self.streams[step.stream].clone())));
                self.held.push(done.held);
            }
            Err(RunError::Driver { source: DriverError::OutOfMemory { .. }, .. }) => {
                assert!(self.fault.counts().out_of_memory > rejected, "memory was not rejected");
                self.look_at_parts(step, &[]);
            }
            Err(error) => {
                let there = step.other.as_ref().map(|other| other.failures().split_off(before_there));
                fresh.extend(there.into_iter().flatten().chain(step.on_the_way.iter().cloned()));
                self.rejected(step, &error, &fresh);
            }
        }
    }

    /// The failures that the step depends on.
    fn causes(&self, step: &ProgramStep) -> Causes {
        let reads = step.reads.iter().flat_map(|&at| self.values[at].causes.clone());
        self.streams[step.stream].iter().cloned().chain(reads).chain(step.foreign.iter().cloned()).collect()
    }

    /// Updates the model after a step was scheduled: if the step or one of its dependencies failed, its
    /// stream and its outputs fail.
    fn accepted(&mut self, step: &ProgramStep, fresh: &[Failure]) {
        if self.streams[step.stream].is_empty() {
            self.streams[step.stream] = self.causes(step);
            self.streams[step.stream].extend_from_slice(fresh);
        }
        if let Some((out, elements)) = step.write {
            self.values[out] = Value { elements, causes: self.streams[step.stream].clone() };
        }
    }

    /// Updates the model after a step that was not scheduled or has already failed: its outputs are
    /// unchanged, unless a part of the step was scheduled.
    fn rejected(&mut self, step: &ProgramStep, error: &RunError, fresh: &[Failure]) {
        let causes: Causes = self.causes(step).into_iter().chain(fresh.iter().cloned()).collect();
        expect_one_of(&causes, error);
        self.look_at_stream(step.stream, &causes);
        self.look_at_parts(step, &causes);
    }

    /// The stream may have failed as well, because it waited for a failed task.
    pub(super) fn look_at_stream(&mut self, stream: usize, causes: &[Failure]) {
        if !self.streams[stream].is_empty() {
            return;
        }
        if let Err(error) = self.stream(stream).sync() {
            self.streams[stream] = vec![expect_one_of(causes, &error)];
        }
    }

    /// Marks the outputs of a step that was scheduled in part as having no value.
    fn look_at_parts(&mut self, step: &ProgramStep, causes: &[Failure]) {
        let Some((out, _)) = step.write.filter(|_| step.in_parts) else { return };
        let failure = self.contexts[0].failure(&self.nodes[out]);
        if let Some(failure) = failure.filter(|failure| !self.values[out].causes.contains(failure)) {
            assert!(causes.contains(&failure), "{failure}: expected one of {causes:?}");
            self.values[out].causes = vec![failure];
        }
    }

    /// Each event is done, or fails for one of its possible causes.
    pub(super) fn check_events(&mut self) {
        for (event, causes) in self.events.drain(..) {
            match event.sync() {
                Ok(()) => assert!(causes.is_empty(), "an event is done that should fail: {causes:?}"),
                Err(error) => drop(expect_one_of(&causes, &error)),
            }
            assert!(event.is_done());
        }
    }

    pub(super) fn reset(&mut self, stream: usize) {
        let reset = self.stream(stream).reset();
        if !self.is_lost() {
            reset.unwrap();
            self.streams[stream].clear();
        }
    }

    /// Drops everything in a random order; no memory may be left.
    pub(super) fn drop_everything(self, random: &mut Rng) {
        let mut all = self.held;
        all.extend(self.contexts.into_iter().map(|context| Box::new(context) as Box<dyn Any>));
        all.extend(self.events.into_iter().map(|event| Box::new(event) as Box<dyn Any>));
        random.shuffle(&mut all);
        drop(all);
        assert_eq!(self.device.memory().live_bytes, 0);
        assert_eq!(self.device.driver().used_memory(), 0);
    }
}

/// The failure behind an error; it must be one of `causes`.
fn expect_one_of(causes: &[Failure], error: &RunError) -> Failure {
    let failure = error.failure().unwrap_or_else(|| panic!("nothing was to fail: {error}"));
    assert!(causes.contains(failure), "{error}: expected one of {causes:?}");
    failure.clone()
}

/// A device whose streams all share nodes with these values; making it must not fail.
pub(super) fn machine(
    device: Device,
    fault: Arc<FaultDevice>,
    nodes: &[TensorNode],
    streams: usize,
) -> ModeledDevice {
    let value = |i: i64| Value { elements: [i, 10 * i, 100 * i], causes: vec![] };
    let values: Vec<_> = (0..nodes.len() as i64).map(value).collect();
    let root = nodes.iter().zip(&values).fold(context(&device), |context, (node, value)| {
        context.init_from_host(node, array(&value.elements)).unwrap()
    });
    let on_stream = |_| root.on_stream(&device.new_stream().unwrap()).unwrap();
    let contexts: Vec<_> = (0..streams).map(on_stream).collect();
    ModeledDevice {
        device,
        fault,
        nodes: nodes.to_vec(),
        streams: vec![vec![]; contexts.len()],
        contexts,
        values,
        events: vec![],
        held: vec![Box::new(root)],
    }
}
