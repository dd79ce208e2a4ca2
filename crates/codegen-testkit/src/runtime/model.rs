//! What is known of a device where things go wrong: for each node its value, for each node and each stream the failures that may
//! be the cause of its having failed.
//!
//! Faults are decided when a task is handed over, so the model knows of them as soon as the runtime could. An error without a fault
//! behind it, a value where there can be none, and a failure that spreads where nothing depends on it are all noticed.

use std::{any::Any, sync::Arc};

use device_runtime::{Context, Device, DriverError, Error, Event, Failure, FaultDevice, Stream};
use fastrand::Rng;
use tnode::TensorNode;

use super::hand_made::*;

/// Failures, one of which is the cause; none where nothing failed.
pub(super) type Causes = Vec<Failure>;

/// What a node holds, and why it may hold nothing.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) elements: [i64; 3],
    pub(super) causes: Causes,
}

/// A device, and what is known of it.
pub(super) struct Machine {
    pub(super) device: Device,
    pub(super) fault: Arc<FaultDevice>,
    pub(super) nodes: Vec<TensorNode>,
    /// One per stream; all see the same memory.
    pub(super) contexts: Vec<Context>,
    /// By stream.
    pub(super) streams: Vec<Causes>,
    /// By node.
    pub(super) values: Vec<Value>,
    /// Events with why they may fail.
    pub(super) events: Vec<(Event, Causes)>,
    /// What the program holds until it ends.
    pub(super) held: Vec<Box<dyn Any>>,
}

/// What a step depends on and writes.
#[derive(Default)]
pub(super) struct Step {
    pub(super) stream: usize,
    /// Nodes of the device, by position.
    pub(super) reads: Vec<usize>,
    pub(super) write: Option<(usize, [i64; 3])>,
    /// It is handed over in parts, so that an error may leave a part.
    pub(super) in_parts: bool,
    /// The failure that the step's own code ends in.
    pub(super) own: Option<Failure>,
    /// What it depends on elsewhere that failed.
    pub(super) foreign: Causes,
    /// Failures elsewhere that it may meet, if it takes that way.
    pub(super) on_the_way: Causes,
    /// The other device that it has tasks on.
    pub(super) other: Option<Arc<FaultDevice>>,
}

/// What a step leaves behind.
pub(super) struct Done {
    pub(super) event: Option<Event>,
    pub(super) held: Box<dyn Any>,
}

impl Machine {
    pub(super) fn is_lost(&self) -> bool {
        self.fault.counts().device_lost > 0
    }

    pub(super) fn stream(&self, stream: usize) -> &Stream {
        self.contexts[stream].stream()
    }

    /// Does a step and compares what comes of it with the model.
    pub(super) fn step(&mut self, step: &Step, act: impl FnOnce(&Context) -> Result<Option<Done>, Error>) {
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
            Err(Error::Driver { source: DriverError::OutOfMemory { .. }, .. }) => {
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

    /// What the step depends on that failed.
    fn causes(&self, step: &Step) -> Causes {
        let reads = step.reads.iter().flat_map(|&at| self.values[at].causes.clone());
        self.streams[step.stream].iter().cloned().chain(reads).chain(step.foreign.iter().cloned()).collect()
    }

    /// The step was scheduled: if what it depends on failed, or it did, then it fails its stream and what it writes.
    fn accepted(&mut self, step: &Step, fresh: &[Failure]) {
        if self.streams[step.stream].is_empty() {
            self.streams[step.stream] = self.causes(step);
            self.streams[step.stream].extend_from_slice(fresh);
        }
        if let Some((out, elements)) = step.write {
            self.values[out] = Value { elements, causes: self.streams[step.stream].clone() };
        }
    }

    /// The step was not scheduled, or it has failed already: what it writes is as it was, unless a part was scheduled.
    fn rejected(&mut self, step: &Step, error: &Error, fresh: &[Failure]) {
        let causes: Causes = self.causes(step).into_iter().chain(fresh.iter().cloned()).collect();
        expect_one_of(&causes, error);
        self.look_at_stream(step.stream, &causes);
        self.look_at_parts(step, &causes);
    }

    /// The stream may have failed as well, by waiting for what failed.
    pub(super) fn look_at_stream(&mut self, stream: usize, causes: &[Failure]) {
        if !self.streams[stream].is_empty() {
            return;
        }
        if let Err(error) = self.stream(stream).sync() {
            self.streams[stream] = vec![expect_one_of(causes, &error)];
        }
    }

    /// A step in parts of which one was scheduled leaves no value.
    fn look_at_parts(&mut self, step: &Step, causes: &[Failure]) {
        let Some((out, _)) = step.write.filter(|_| step.in_parts) else { return };
        let failure = self.contexts[0].failure(&self.nodes[out]);
        if let Some(failure) = failure.filter(|failure| !self.values[out].causes.contains(failure)) {
            assert!(causes.contains(&failure), "{failure}: expected one of {causes:?}");
            self.values[out].causes = vec![failure];
        }
    }

    /// Each event is done, or fails for one of the reasons there were.
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

    /// Drops everything in a random order; nothing is left.
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

/// The failure behind an error, which is one of these.
fn expect_one_of(causes: &[Failure], error: &Error) -> Failure {
    let failure = error.failure().unwrap_or_else(|| panic!("nothing was to fail: {error}"));
    assert!(causes.contains(failure), "{error}: expected one of {causes:?}");
    failure.clone()
}

/// A device whose streams all see nodes with these values; the making of it goes well.
pub(super) fn machine(
    device: Device,
    fault: Arc<FaultDevice>,
    nodes: &[TensorNode],
    streams: usize,
) -> Machine {
    let value = |i: i64| Value { elements: [i, 10 * i, 100 * i], causes: vec![] };
    let values: Vec<_> = (0..nodes.len() as i64).map(value).collect();
    let root = nodes.iter().zip(&values).fold(context(&device), |context, (node, value)| {
        context.init_from_host(node, &array(&value.elements)).unwrap()
    });
    let on_stream = |_| root.on_stream(&device.new_stream().unwrap()).unwrap();
    let contexts: Vec<_> = (0..streams).map(on_stream).collect();
    Machine {
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
