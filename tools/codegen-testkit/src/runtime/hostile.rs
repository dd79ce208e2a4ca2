//! Random programs on devices with injected faults: every step gives the value that the [model](super::model)
//! predicts, or an error with the right cause.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use codegen_core::{Access, KernelCall, Slot, host::HostArg};
use device_runtime::{
    Context, Device, DriverError, Failure, FaultCounts, FaultDevice, FaultPlan, MergeBufferUse, PoolId,
    RunError, Transfer,
};
use fastrand::Rng;
use lowered_ir::ir::NodeRef;
use tnode::{HostArray, TensorNode};

use super::{
    DriverFactory, Setup,
    hand_made::*,
    model::{ModeledDevice, ProgramStep, StepResult, machine},
    programs::{mix, mixing},
};

const NODES: usize = 5;
const STEPS: usize = 80;
const PROGRAMS: u64 = 40;

/// Random programs on two devices with all kinds of faults leave the values and causes that the model
/// predicts, and no memory.
pub fn random_programs_under_faults_give_the_model_or_the_cause(make: DriverFactory<'_>) {
    let mut total = FaultCounts::default();
    for seed in 0..PROGRAMS {
        let mut random = Rng::with_seed(seed);
        let nodes = nodes();
        let mut machines = [seed, !seed].map(|seed| {
            let plan = FaultPlan::new(seed).out_of_memory(0.1).task_failures(0.05).slow_copies(0.02);
            faulty(make, plan.late_completions(0.3).rejected_peers(0.3), &nodes, &mut random)
        });
        for step in 0..STEPS {
            if random.u32(..4) == 0 {
                let [one, other] = &mut machines;
                let (to, from) = if random.bool() { (one, other) } else { (other, one) };
                transfer(to, from, &mut random);
            } else {
                random_step(&mut machines[random.usize(..2)], step, &mut random);
            }
        }
        // A copy that one device has yet to make holds memory of the other, so both are waited for first.
        for machine in &mut machines {
            heal_and_check(machine, &mut random);
            add(&mut total, machine.fault.counts());
        }
        for machine in machines {
            machine.drop_everything(&mut random);
        }
    }
    assert!(total.out_of_memory > 5 && total.task_failures > 40 && total.late_completions > 200, "{total:?}");
    assert!(total.slow_copies > 0, "{total:?}");
    assert!(total.rejected_peers > 5 || !exports(make), "{total:?}");
}

/// Whether the driver exports its memory. Without exports, no import can be rejected.
fn exports(make: DriverFactory<'_>) -> bool {
    let driver = make(&Setup::default());
    driver.alloc_pool(PoolId(1), 64).and_then(|pool| driver.export(&pool)).is_ok()
}

fn add(total: &mut FaultCounts, counts: FaultCounts) {
    total.out_of_memory += counts.out_of_memory;
    total.task_failures += counts.task_failures;
    total.late_completions += counts.late_completions;
    total.slow_copies += counts.slow_copies;
    total.rejected_peers += counts.rejected_peers;
}

/// A lost device fails all its operations; another device fails only where it needs the lost one's memory.
pub fn a_lost_device_concerns_no_other(make: DriverFactory<'_>) {
    let mut losses = 0;
    for seed in 0..PROGRAMS / 2 {
        let mut random = Rng::with_seed(seed);
        let nodes = nodes();
        let plan = FaultPlan::new(seed).device_lost(0.02).late_completions(0.3);
        let mut lossy = faulty(make, plan, &nodes, &mut random);
        let mut other = faulty(make, FaultPlan::new(seed).task_failures(0.03), &nodes, &mut random);
        for step in 0..STEPS {
            match lossy.is_lost() {
                true => check_lost(&lossy),
                false => random_step(&mut lossy, step, &mut random),
            }
            random_step(&mut other, step, &mut random);
        }
        losses += lossy.fault.counts().device_lost;
        if lossy.is_lost() {
            take_from_lost(&mut other, &lossy);
        }
        heal_and_check(&mut other, &mut random);
        lossy.drop_everything(&mut random);
        other.drop_everything(&mut random);
    }
    assert!(losses > 3, "{losses}");
}

fn nodes() -> Vec<TensorNode> {
    (0..NODES).map(|at| node(&format!("n{at}"), 3)).collect()
}

/// A device with some streams, with injected faults from now on.
fn faulty(make: DriverFactory<'_>, plan: FaultPlan, nodes: &[TensorNode], random: &mut Rng) -> ModeledDevice {
    let setup = Setup { queue_capacity: 1 + random.usize(..8), ..Setup::default() };
    let fault = Arc::new(FaultDevice::new(make(&setup), plan));
    fault.set_active(false);
    let device = Device::new(Arc::clone(&fault) as _, 0);
    let machine = machine(device, fault, nodes, 1 + random.usize(..4));
    machine.fault.set_active(true);
    machine
}

fn random_step(machine: &mut ModeledDevice, step: usize, random: &mut Rng) {
    let stream = random.usize(..machine.contexts.len());
    let [a, b, out] = [(); 3].map(|()| random.usize(..NODES));
    match random.u32(..20) {
        0..=4 => write_node(machine, stream, out, step as i64),
        5 | 6 => read_node(machine, stream, a),
        7 => panic_in_a_kernel(machine, stream, out, step),
        8 => allocate(machine, stream),
        9..=11 => machine.reset(stream),
        12 => machine.check_events(),
        13 => negate_twice(machine, stream, out),
        14 => call_the_host(machine, stream),
        _ => compute(machine, stream, [a, b, out]),
    }
}

fn write_node(machine: &mut ModeledDevice, stream: usize, out: usize, value: i64) {
    let elements = [value, -value, value * value];
    let node = machine.nodes[out].clone();
    let step = ProgramStep { stream, write: Some((out, elements)), ..ProgramStep::default() };
    machine.step(&step, |context| context.from_host(&node, array(&elements)).map(|_| None));
}

fn read_node(machine: &mut ModeledDevice, stream: usize, at: usize) {
    let (node, expected) = (machine.nodes[at].clone(), machine.values[at].elements);
    let step = ProgramStep { stream, reads: vec![at], ..ProgramStep::default() };
    machine.step(&step, |context| {
        let found: HostArray = context.to_host(&node)?;
        assert_eq!(found.as_slice::<i64>().unwrap(), expected);
        done(context.stream().all_work()?, found)
    });
}

fn done(event: device_runtime::Event, held: impl std::any::Any) -> Result<Option<StepResult>, RunError> {
    Ok(Some(StepResult { event: Some(event), held: Box::new(held) }))
}

fn compute(machine: &mut ModeledDevice, stream: usize, [a, b, out]: [usize; 3]) {
    let [x, y, z] = [a, b, out].map(|at| machine.values[at].elements);
    let elements = [0, 1, 2].map(|i| mix(x[i], y[i], z[i]));
    let nodes = [a, b, out].map(|at| machine.nodes[at].clone());
    let step = ProgramStep {
        stream,
        reads: vec![a, b, out],
        write: Some((out, elements)),
        ..ProgramStep::default()
    };
    machine.step(&step, |context| {
        let routine = mixing(context, nodes.each_ref(), [a, b, out], 200)?;
        done(routine.run(&[])?, routine)
    });
}

/// Two kernels that change nothing together, but each does alone: the state after the first one alone is no
/// value.
fn negate_twice(machine: &mut ModeledDevice, stream: usize, out: usize) {
    let negate = |args: &mut [HostArg<'_>], _: &[i64]| write(&mut args[0]).iter_mut().for_each(|x| *x = !*x);
    let node = machine.nodes[out].clone();
    let kernels = ["first", "second"].map(|name| abi(name, vec![memory(&node, Access::ReadWrite)]));
    let kernels = kernels.map(|abi| (body(negate), abi));
    let module = interpreted(kernels.into());
    let call = |kernel| KernelCall { kernel, args: vec![Slot::Node(NodeRef(0))], bindings: vec![] };
    let nodes = std::slice::from_ref(&node);
    let code = many_kernels("twice", nodes, &[], module, vec![call(0), call(1)], vec![]);
    let write = Some((out, machine.values[out].elements));
    let step = ProgramStep { stream, reads: vec![out], write, in_parts: true, ..ProgramStep::default() };
    machine.step(&step, |context| {
        let routine = context.link(&code, nodes)?;
        done(routine.run(&[])?, routine)
    });
}

/// A host function, which runs once on a healthy stream and never on a failed one.
fn call_the_host(machine: &mut ModeledDevice, stream: usize) {
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, had_failed) = (Arc::clone(&ran), !machine.streams[stream].is_empty());
    let step = ProgramStep { stream, ..ProgramStep::default() };
    machine.step(&step, |context| {
        let run = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        done(context.stream().schedule_task("function", run)?, ())
    });
    if machine.is_lost() {
        return;
    }
    let synced = machine.stream(stream).sync();
    if had_failed || synced.is_ok() {
        assert_eq!(ran.load(Ordering::Relaxed), usize::from(!had_failed));
    }
}

/// A kernel that panics after overwriting its output.
fn panic_in_a_kernel(machine: &mut ModeledDevice, stream: usize, out: usize, step: usize) {
    let (node, message) = (machine.nodes[out].clone(), format!("panic {step}"));
    let own = Failure::new(machine.stream(stream).name(), "panics", message.as_str());
    let code = code("panics", &[(&node, Access::Write)], &[], move |args, _| {
        write(&mut args[0]).fill(-1);
        // Like a panic, but without the hook, which would print it.
        std::panic::resume_unwind(Box::new(message.clone()));
    });
    let step = ProgramStep { stream, write: Some((out, [-1; 3])), own: Some(own), ..ProgramStep::default() };
    machine.step(&step, |context| {
        let routine = context.link(&code, &[node])?;
        done(routine.run(&[])?, routine)
    });
}

/// A link that allocates, or fails and leaves nothing allocated.
fn allocate(machine: &mut ModeledDevice, stream: usize) {
    let fresh = node("fresh", 100);
    let code = code("fill", &[(&fresh, Access::Write)], &[], |args, _| write(&mut args[0]).fill(7));
    let (before, held) = (machine.device.memory().live_bytes, machine.held.len());
    let step = ProgramStep { stream, ..ProgramStep::default() };
    machine.step(&step, |context| {
        let routine = context.link(&code, &[fresh])?;
        Ok(Some(StepResult { event: None, held: Box::new(routine) }))
    });
    let expected = before + (machine.held.len() - held) * 800;
    assert_eq!(machine.device.memory().live_bytes, expected, "a failed link leaves nothing allocated");
}

/// Transfers a node from one device to the other, as a copy or into a merge buffer.
fn transfer(to: &mut ModeledDevice, from: &mut ModeledDevice, random: &mut Rng) {
    let (stream, source) = (random.usize(..to.contexts.len()), random.usize(..from.contexts.len()));
    let at = random.usize(..NODES);
    let (node, context) = (to.nodes[at].clone(), from.contexts[source].clone());
    let added = random.u32(..3);
    let elements = [0, 1, 2].map(|i| match added {
        0 => from.values[at].elements[i],
        _ => to.values[at].elements[i].wrapping_add(from.values[at].elements[i]),
    });
    let step = ProgramStep {
        stream,
        reads: if added > 0 { vec![at] } else { vec![] },
        write: Some((at, elements)),
        foreign: from.values[at].causes.clone(),
        on_the_way: from.streams[source].clone(),
        other: Some(Arc::clone(&from.fault)),
        ..ProgramStep::default()
    };
    let before = from.fault.failures().len();
    to.step(&step, |here| match added {
        0 => scheduled(here.device_to_device(&node, MergeBufferUse::No, &context)?),
        1 => {
            let routine = here.link(&merging(&node), std::slice::from_ref(&node))?;
            let mode = MergeBufferUse::StreamingFor(&routine, &[]);
            scheduled(here.device_to_device(&node, mode, &context)?)
        }
        _ => {
            let routine = here.link(&merging(&node), std::slice::from_ref(&node))?;
            let _ = here.device_to_device(&node, MergeBufferUse::Copy, &context)?;
            done(routine.run(&[])?, routine)
        }
    });
    // If values went through the host, there was a task on the source's stream.
    let mut causes = from.fault.failures().split_off(before);
    causes.extend(from.values[at].causes.clone());
    from.look_at_stream(source, &causes);
}

fn scheduled(transfer: Transfer) -> Result<Option<StepResult>, RunError> {
    match transfer {
        Transfer::Scheduled(event) => done(event, ()),
        Transfer::NothingToDo(reason) => panic!("{reason}"),
    }
}

/// After faults have ended, streams were reset and poisoned nodes were written again, everything works.
fn heal_and_check(machine: &mut ModeledDevice, random: &mut Rng) {
    machine.check_events();
    machine.fault.set_active(false);
    for stream in 0..machine.contexts.len() {
        let healthy = machine.streams[stream].is_empty();
        assert_eq!(machine.stream(stream).sync().is_ok(), healthy, "{:?}", machine.streams[stream]);
        machine.reset(stream);
    }
    for at in 0..NODES {
        let stream = random.usize(..machine.contexts.len());
        if !machine.values[at].causes.is_empty() {
            read_node(machine, stream, at);
            let failure = machine.contexts[0].failure(&machine.nodes[at]).unwrap();
            assert!(machine.values[at].causes.contains(&failure), "{failure}");
            write_node(machine, stream, at, at as i64);
        }
        assert_eq!(values(&machine.contexts[stream], &machine.nodes[at]), machine.values[at].elements);
    }
    assert!(machine.streams.iter().all(Vec::is_empty));
    machine.device.sync().unwrap();
}

/// Every operation on a lost device.
fn check_lost(machine: &ModeledDevice) {
    let (context, node) = (&machine.contexts[0], &machine.nodes[0]);
    let error = context.to_host(node).unwrap_err();
    let causes = &machine.values[0].causes;
    assert!(is_lost(&error) || error.failure().is_some_and(|f| causes.contains(f)), "{error}");
    for error in [
        context.from_host(node, array(&[1, 2, 3])).unwrap_err(),
        mixing(context, [node, node, node], [0; 3], 0).unwrap_err(),
        context.init_from_host(&self::node("late", 3), array(&[1, 2, 3])).unwrap_err(),
        context.stream().sync().unwrap_err(),
        context.stream().reset().unwrap_err(),
        machine.device.new_stream().unwrap_err(),
    ] {
        assert!(is_lost(&error), "{error}");
    }
    for (event, causes) in &machine.events {
        if let Err(error) = event.sync() {
            assert!(is_lost(&error) || error.failure().is_some_and(|f| causes.contains(f)), "{error}");
        }
        assert!(event.is_done());
    }
}

/// A node copied from a lost device has its value or fails, and with it the stream that copies; nothing else
/// fails.
fn take_from_lost(machine: &mut ModeledDevice, lost: &ModeledDevice) {
    machine.fault.set_active(false);
    let taker = machine.contexts[0].on_stream(&machine.device.new_stream().unwrap()).unwrap();
    for at in 0..NODES {
        let node = &machine.nodes[at];
        let fair = |error: &RunError| {
            let failure = error.failure();
            is_lost(error) || failure.is_some_and(|failure| lost.values[at].causes.contains(failure))
        };
        let taken = |context: &Context| {
            let _ = context.device_to_device(node, MergeBufferUse::No, &lost.contexts[0])?;
            context.to_host(node)
        };
        if let Err(error) = taken(&taker) {
            assert!(fair(&error), "{error}");
        }
        taker.stream().reset().unwrap();
        write_node(machine, 0, at, 3);
        if !machine.streams[0].is_empty() {
            machine.reset(0);
            write_node(machine, 0, at, 3);
        }
    }
    machine.fault.set_active(true);
}

fn is_lost(error: &RunError) -> bool {
    match error {
        RunError::Driver { source: DriverError::Lost { .. }, .. } => true,
        other => other.failure().is_some_and(|failure| failure.message().contains("is lost")),
    }
}
