//! Random programs on devices where things go wrong: every step gives what the model says or an error with the right cause.
//!
//! What went wrong is known, since faults are decided when a task is handed over: for each node and each stream the model holds
//! the failures that may be the cause of its having failed; none where it is healthy. So an error without a fault behind it, a
//! value where there can be none, and a failure that spreads where nothing depends on it are all noticed.

use std::{any::Any, sync::Arc};

use codegen_core::Access;
use device_runtime::{
    Context, Device, DriverError, Error, Event, Failure, FaultCounts, FaultDevice, FaultPlan, Stream,
};
use fastrand::Rng;
use tnode::{HostArray, TensorNode};

use super::{
    Make, Setup,
    hand_made::*,
    programs::{mix, mixing},
};

const NODES: usize = 5;
const STEPS: usize = 60;
const PROGRAMS: u64 = 45;

/// A device, and what the model knows of it.
struct Machine {
    device: Device,
    fault: Arc<FaultDevice>,
    /// One per stream; all see the same memory.
    contexts: Vec<Context>,
    streams: Vec<Causes>,
    nodes: Vec<Value>,
    /// Events with why they may fail.
    events: Vec<(Event, Causes)>,
    /// What the program holds until it ends.
    held: Vec<Box<dyn Any>>,
}

/// Failures, one of which is the cause; none where nothing failed.
type Causes = Vec<Failure>;

/// What a node holds, and why it may hold nothing.
#[derive(Clone)]
struct Value {
    elements: [i64; 3],
    causes: Causes,
}

/// What a step reads and writes, by position.
struct Step {
    stream: usize,
    reads: Vec<usize>,
    write: Option<(usize, [i64; 3])>,
    /// The failure that the step's own code ends in.
    own: Option<Failure>,
}

/// Random programs with all kinds of faults leave what the model says: values, causes, and no memory.
pub fn random_programs_under_faults_give_the_model_or_the_cause(make: Make<'_>) {
    let mut total = FaultCounts::default();
    for seed in 0..PROGRAMS {
        let mut random = Rng::with_seed(seed);
        let plan = FaultPlan::new(seed).out_of_memory(0.1).task_failures(0.05).slow_copies(0.02);
        let mut machine = machine(make, plan.late_completions(0.3), &mut random);
        for step in 0..STEPS {
            machine.random_step(step, &mut random);
        }
        machine.heal_and_check(&mut random);
        let counts = machine.fault.counts();
        total.out_of_memory += counts.out_of_memory;
        total.task_failures += counts.task_failures;
        total.late_completions += counts.late_completions;
        machine.drop_everything(&mut random);
    }
    assert!(total.out_of_memory > 5 && total.task_failures > 40 && total.late_completions > 200, "{total:?}");
}

/// A device that is lost fails everything that is asked of it, and nothing of another device.
pub fn the_loss_of_a_device_concerns_no_other(make: Make<'_>) {
    let mut losses = 0;
    for seed in 0..PROGRAMS / 3 {
        let mut random = Rng::with_seed(seed);
        let mut lossy = machine(make, FaultPlan::new(seed).loss(0.02).late_completions(0.3), &mut random);
        let mut other = machine(make, FaultPlan::new(seed).task_failures(0.03), &mut random);
        for step in 0..STEPS {
            if lossy.fault.counts().losses == 0 {
                lossy.random_step(step, &mut random);
            } else {
                lossy.check_lost();
            }
            other.random_step(step, &mut random);
        }
        losses += lossy.fault.counts().losses;
        other.heal_and_check(&mut random);
        lossy.drop_everything(&mut random);
        other.drop_everything(&mut random);
    }
    assert!(losses > 3, "{losses}");
}

/// A device with nodes that have values, and some streams; the making of it goes well.
fn machine(make: Make<'_>, plan: FaultPlan, random: &mut Rng) -> Machine {
    let setup = Setup { queue_capacity: 1 + random.usize(..8), ..Setup::default() };
    let fault = Arc::new(FaultDevice::new(make(&setup), plan));
    fault.set_active(false);
    let device = Device::new(Arc::clone(&fault) as _, 0);
    let nodes: Vec<Value> =
        (0..NODES as i64).map(|i| Value { elements: [i, 10 * i, 100 * i], causes: vec![] }).collect();
    let root = nodes.iter().enumerate().fold(context(&device), |context, (at, value)| {
        context.init_from_host(&node(&format!("n{at}"), 3), &array(&value.elements)).unwrap()
    });
    let on_stream = |_| root.on_stream(&device.new_stream().unwrap()).unwrap();
    let contexts: Vec<_> = (0..1 + random.usize(..4)).map(on_stream).collect();
    fault.set_active(true);
    let streams = vec![vec![]; contexts.len()];
    Machine { device, fault, contexts, streams, nodes, events: vec![], held: vec![Box::new(root)] }
}

impl Machine {
    fn random_step(&mut self, step: usize, random: &mut Rng) {
        let stream = random.usize(..self.contexts.len());
        let [a, b, out] = [(); 3].map(|()| random.usize(..NODES));
        match random.u32(..20) {
            0..=4 => self.write(stream, out, step as i64),
            5 | 6 => self.read(stream, a),
            7 => self.panic(stream, out, step),
            8 => self.allocate(stream),
            9..=11 => self.reset(stream),
            12 => self.check_events(),
            _ => self.compute(stream, [a, b, out]),
        }
    }

    fn name(&self, stream: usize) -> String {
        self.stream(stream).name()
    }

    fn stream(&self, stream: usize) -> &Stream {
        self.contexts[stream].stream()
    }

    fn node(&self, at: usize) -> TensorNode {
        let name = format!("n{at}");
        self.contexts[0].nodes().into_iter().find(|node| node.name() == name).unwrap()
    }

    fn write(&mut self, stream: usize, out: usize, value: i64) {
        let elements = [value, -value, value * value];
        let node = self.node(out);
        let step = Step { stream, reads: vec![], write: Some((out, elements)), own: None };
        self.step(&step, |context| context.from_host(&node, &array(&elements)).map(|_| None));
    }

    fn compute(&mut self, stream: usize, [a, b, out]: [usize; 3]) {
        let [x, y, z] = [a, b, out].map(|at| self.nodes[at].elements);
        let elements = [0, 1, 2].map(|i| mix(x[i], y[i], z[i]));
        let nodes = [a, b, out].map(|at| self.node(at));
        let step = Step { stream, reads: vec![a, b, out], write: Some((out, elements)), own: None };
        self.step(&step, |context| {
            let routine = mixing(context, nodes.each_ref(), [a, b, out], 200)?;
            Ok(Some(Done { event: Some(routine.run(&[])?), held: Box::new(routine) }))
        });
    }

    /// A kernel that panics after it has overwritten its output.
    fn panic(&mut self, stream: usize, out: usize, step: usize) {
        let (node, message) = (self.node(out), format!("panic {step}"));
        let own = Failure::new(self.name(stream), "panics", message.as_str());
        let code = code("panics", &[(&node, Access::Write)], &[], move |args, _| {
            write(&mut args[0]).fill(-1);
            // As a panic, but for the hook, which would print it.
            std::panic::resume_unwind(Box::new(message.clone()));
        });
        let step = Step { stream, reads: vec![], write: Some((out, [-1; 3])), own: Some(own) };
        self.step(&step, |context| {
            let routine = context.link(&code, &[node])?;
            Ok(Some(Done { event: Some(routine.run(&[])?), held: Box::new(routine) }))
        });
    }

    /// A fresh node, by a link that also uses an old one.
    fn allocate(&mut self, stream: usize) {
        let fresh = node("fresh", 100);
        let code = code("fill", &[(&fresh, Access::Write)], &[], |args, _| write(&mut args[0]).fill(7));
        let before = self.device.memory().live_bytes;
        let held = self.held.len();
        let step = Step { stream, reads: vec![], write: None, own: None };
        self.step(&step, |context| {
            let routine = context.link(&code, &[fresh])?;
            Ok(Some(Done { event: None, held: Box::new(routine) }))
        });
        let expected = before + (self.held.len() - held) * 800;
        assert_eq!(self.device.memory().live_bytes, expected, "a failed link leaves nothing allocated");
    }

    fn read(&mut self, stream: usize, at: usize) {
        let (node, expected) = (self.node(at), self.nodes[at].elements);
        let step = Step { stream, reads: vec![at], write: None, own: None };
        self.step(&step, |context| {
            let found: HostArray = context.to_host(&node)?;
            assert_eq!(found.as_slice::<i64>().unwrap(), expected);
            Ok(Some(Done { event: Some(context.stream().all_work()?), held: Box::new(found) }))
        });
    }

    fn reset(&mut self, stream: usize) {
        let reset = self.stream(stream).reset();
        if self.fault.counts().losses == 0 {
            reset.unwrap();
            self.streams[stream].clear();
        }
    }

    /// Does a step and compares what comes of it with the model.
    fn step(&mut self, step: &Step, act: impl FnOnce(&Context) -> Result<Option<Done>, Error>) {
        let before = (self.fault.failures().len(), self.fault.counts());
        let result = act(&self.contexts[step.stream]);
        let mut fresh: Causes = self.fault.failures().split_off(before.0);
        let counts = self.fault.counts();
        if counts.losses > 0 {
            return;
        }
        match result {
            Ok(done) => {
                fresh.extend(step.own.clone());
                self.accepted(step, &fresh);
                let Some(done) = done else { return };
                self.events.extend(done.event.map(|event| (event, self.streams[step.stream].clone())));
                self.held.push(done.held);
            }
            Err(Error::Driver { source: DriverError::OutOfMemory { .. }, .. }) => {
                assert!(counts.out_of_memory > before.1.out_of_memory, "memory was not refused");
            }
            Err(error) => self.refused(step, &error, &fresh),
        }
    }

    /// What the step depends on that failed.
    fn causes(&self, step: &Step) -> Causes {
        let reads = step.reads.iter().flat_map(|&at| self.nodes[at].causes.clone());
        self.streams[step.stream].iter().cloned().chain(reads).collect()
    }

    /// The step was scheduled: if what it depends on failed, or it did, then it fails its stream and what it writes.
    fn accepted(&mut self, step: &Step, fresh: &[Failure]) {
        let stream_was_healthy = self.streams[step.stream].is_empty();
        if stream_was_healthy {
            self.streams[step.stream] = self.causes(step);
            self.streams[step.stream].extend_from_slice(fresh);
        }
        if let Some((out, elements)) = step.write {
            self.nodes[out] = Value { elements, causes: self.streams[step.stream].clone() };
        }
    }

    /// The step was not scheduled, or it has failed already: what it writes is as it was.
    fn refused(&mut self, step: &Step, error: &Error, fresh: &[Failure]) {
        let causes: Causes = self.causes(step).into_iter().chain(fresh.iter().cloned()).collect();
        let failure = error.failure().unwrap_or_else(|| panic!("nothing was to fail: {error}"));
        assert!(causes.contains(failure), "{error}: expected one of {causes:?}");
        if !self.streams[step.stream].is_empty() {
            return;
        }
        // The stream may have failed as well, by waiting for what failed.
        if let Err(error) = self.stream(step.stream).sync() {
            let failure = error.failure().unwrap_or_else(|| panic!("nothing was to fail: {error}"));
            assert!(causes.contains(failure), "{error}: expected one of {causes:?}");
            self.streams[step.stream] = vec![failure.clone()];
        }
    }

    /// Each event is done, or fails for one of the reasons there were.
    fn check_events(&mut self) {
        for (event, causes) in self.events.drain(..) {
            match event.sync() {
                Ok(()) => assert!(causes.is_empty(), "an event is done that should fail: {causes:?}"),
                Err(error) => {
                    let failure = error.failure().unwrap_or_else(|| panic!("{error}"));
                    assert!(causes.contains(failure), "{error}: expected one of {causes:?}");
                }
            }
            assert!(event.is_done());
        }
    }

    /// After faults have ended, streams were reset and nodes without value were written anew, all is well.
    fn heal_and_check(&mut self, random: &mut Rng) {
        self.check_events();
        self.fault.set_active(false);
        for stream in 0..self.contexts.len() {
            let healthy = self.streams[stream].is_empty();
            assert_eq!(self.stream(stream).sync().is_ok(), healthy, "{:?}", self.streams[stream]);
            self.reset(stream);
        }
        for at in 0..NODES {
            let stream = random.usize(..self.contexts.len());
            if !self.nodes[at].causes.is_empty() {
                self.read(stream, at);
                assert!(self.nodes[at].causes.contains(&self.contexts[0].failure(&self.node(at)).unwrap()));
                self.write(stream, at, at as i64);
            }
            assert_eq!(values(&self.contexts[stream], &self.node(at)), self.nodes[at].elements);
        }
        assert!(self.streams.iter().all(Vec::is_empty));
        self.device.sync().unwrap();
    }

    /// Everything there is to ask of a lost device.
    fn check_lost(&self) {
        let (context, node) = (&self.contexts[0], self.node(0));
        let error = context.to_host(&node).unwrap_err();
        let causes = &self.nodes[0].causes;
        assert!(is_lost(&error) || error.failure().is_some_and(|f| causes.contains(f)), "{error}");
        for error in [
            context.from_host(&node, &array(&[1, 2, 3])).unwrap_err(),
            mixing(context, [&node, &node, &node], [0; 3], 0).unwrap_err(),
            context.init_from_host(&self::node("late", 3), &array(&[1, 2, 3])).unwrap_err(),
            context.stream().sync().unwrap_err(),
            context.stream().reset().unwrap_err(),
            self.device.new_stream().unwrap_err(),
        ] {
            assert!(is_lost(&error), "{error}");
        }
        for (event, causes) in &self.events {
            if let Err(error) = event.sync() {
                assert!(is_lost(&error) || error.failure().is_some_and(|f| causes.contains(f)), "{error}");
            }
            assert!(event.is_done());
        }
    }

    /// Drops everything in a random order; nothing is left.
    fn drop_everything(self, random: &mut Rng) {
        let mut all = self.held;
        all.extend(self.contexts.into_iter().map(|context| Box::new(context) as Box<dyn Any>));
        all.extend(self.events.into_iter().map(|event| Box::new(event) as Box<dyn Any>));
        random.shuffle(&mut all);
        drop(all);
        assert_eq!(self.device.memory().live_bytes, 0);
        assert_eq!(self.device.driver().used_memory(), 0);
    }
}

/// What a step leaves behind.
struct Done {
    event: Option<Event>,
    held: Box<dyn Any>,
}

fn is_lost(error: &Error) -> bool {
    match error {
        Error::Driver { source: DriverError::Lost { .. }, .. } => true,
        other => other.failure().is_some_and(|failure| failure.message().contains("is lost")),
    }
}
