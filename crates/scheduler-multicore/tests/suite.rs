//! One suite for both schedulers: order, events, hazards, failures, memory.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod support;

use std::{
    slice::from_ref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use codegen_core::{Access, KernelCall, Launch, Param, Slot, Temp, TempId, host::HostModule};
use device_runtime::{Context, Device, DriverError, Error, Stream};
use lowered_ir::ir::NodeRef;
use scheduler_multicore::{Config, Cpu};
use support::*;
use tnode::{AxisPadding, DType, HostArray, MemoryMode, Padding, Reason, TensorNode};

macro_rules! suite {
    ($($test:ident)*) => {
        mod multicore {
            $(#[test] fn $test() { super::$test(|config| super::device(super::Cpu::multicore(config))) })*
        }
        mod inline {
            $(#[test] fn $test() { super::$test(|config| super::device(super::Cpu::inline(config))) })*
        }
    };
}

suite! {
    tasks_of_a_stream_run_in_order
    many_threads_wait_for_one_event
    random_programs_equal_the_sequential_model
    a_hundred_thousand_tasks_pass_a_small_queue
    a_panic_poisons_what_depends_on_it_and_nothing_else
    a_failed_stream_says_why_and_healthy_nodes_stay
    dropping_everything_runs_what_is_pending
    memory_returns_to_zero
    sleeping_and_waking_loses_nothing
    a_failed_link_leaves_nothing_allocated
    linking_names_what_is_missing_or_does_not_fit
    transfers_name_what_does_not_fit
    bindings_are_checked_before_anything_runs
    temporaries_carry_values_between_kernels
    locations_are_the_same_in_every_run
    a_batch_shares_what_its_members_allocate
    native_kernels_cover_their_range_once
    a_task_cannot_wait_for_itself
    a_fresh_output_is_zero_where_nothing_wrote
    padding_comes_back
    device_names_and_suggestions
}

type Make = fn(Config) -> Device;

fn four_threads() -> Config {
    Config { threads: 4, ..Config::default() }
}

fn tasks_of_a_stream_run_in_order(make: Make) {
    let device = make(four_threads());
    let x = node("x", 1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let code = code("note", &[(&x, Access::Write)], &[symbol("i", 1000)], move |args, bindings| {
        write(&mut args[0])[0] = bindings[0];
        seen.lock().unwrap().push(bindings[0]);
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    (0..1000).for_each(|i| drop(routine.run(&[i]).unwrap()));
    assert_eq!(values(routine.context(), &x), [999]);
    assert_eq!(*log.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

fn many_threads_wait_for_one_event(make: Make) {
    let device = make(four_threads());
    let x = node("x", 1);
    let code = code("slow", &[(&x, Access::Write)], &[], |args, _| {
        thread::sleep(Duration::from_millis(5));
        write(&mut args[0])[0] = 7;
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    let event = routine.run(&[]).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                event.sync().unwrap();
                assert!(event.is_done());
                assert_eq!(values(routine.context(), &x), [7]);
            });
        }
    });
}

/// Nodes of three elements; each step computes one node from others on some stream, or goes through the host.
fn random_programs_equal_the_sequential_model(make: Make) {
    for seed in 0..60 {
        let mut random = Numbers::new(seed + 1);
        let streams = 1 + random.below(4);
        let device = make(Config { threads: 2, queue_capacity: 1 + random.below(8), ..Config::default() });
        random_program(&device, streams, &mut random);
    }
}

fn random_program(device: &Device, streams: usize, random: &mut Numbers) {
    const NODES: usize = 5;
    let nodes: Vec<_> = (0..NODES).map(|i| node(&format!("n{i}"), 3)).collect();
    let mut model: Vec<[i64; 3]> = (0..NODES as i64).map(|i| [i, 10 * i, 100 * i]).collect();
    let root = nodes
        .iter()
        .zip(&model)
        .fold(context(device), |context, (node, start)| context.init_from_host(node, &array(start)).unwrap());
    let contexts: Vec<_> =
        (0..streams).map(|_| root.on_stream(&device.new_stream().unwrap()).unwrap()).collect();
    for step in 0..80i64 {
        let context = &contexts[random.below(streams)];
        let (a, b, out) = (random.below(NODES), random.below(NODES), random.below(NODES));
        match random.below(8) {
            0 => {
                model[out] = [step, -step, step * step];
                let _ = context.from_host(&nodes[out], &array(&model[out])).unwrap();
            }
            1 => assert_eq!(values(context, &nodes[a]), model[a]),
            _ => {
                let spins = random.below(2000);
                run_mix(context, [&nodes[a], &nodes[b], &nodes[out]], [a, b, out], spins);
                let mixed: Vec<i64> = (0..3).map(|i| mix(model[a][i], model[b][i], model[out][i])).collect();
                model[out].copy_from_slice(&mixed);
            }
        }
    }
    let found: Vec<_> = nodes.iter().map(|node| values(&root, node)).collect();
    assert_eq!(found, model);
}

fn mix(a: i64, b: i64, out: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b).wrapping_mul(7) ^ out
}

/// `out = mix(a, b, out)`, slowly; a node that figures twice is one parameter.
fn run_mix(context: &Context, [a, b, out]: [&TensorNode; 3], [ia, ib, io]: [usize; 3], spins: usize) {
    let mut uses = vec![(out, Access::ReadWrite)];
    let mut position = |node, index| {
        if index == io {
            return 0;
        }
        if let Some(at) = uses.iter().position(|(used, _)| *used == node) {
            return at;
        }
        uses.push((node, Access::Read));
        uses.len() - 1
    };
    let (at_a, at_b) = (position(a, ia), position(b, ib));
    let code = code("mix", &uses, &[], move |args, _| {
        for i in 0..3 {
            let (a, b, out) = (read(&args[at_a])[i], read(&args[at_b])[i], read(&args[0])[i]);
            (0..spins).for_each(|_| std::hint::spin_loop());
            write(&mut args[0])[i] = mix(a, b, out);
        }
    });
    let handles: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    drop(context.link(&code, &handles).unwrap().run(&[]).unwrap());
}

fn a_hundred_thousand_tasks_pass_a_small_queue(make: Make) {
    let device = make(Config { threads: 2, queue_capacity: 16, ..Config::default() });
    let x = node("x", 1);
    let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], |args, _| write(&mut args[0])[0] += 1);
    let routine = context.link(&code, from_ref(&x)).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25_000).for_each(|_| drop(routine.run(&[]).unwrap())));
        }
    });
    assert_eq!(values(&context, &x), [100_000]);
}

fn a_panic_poisons_what_depends_on_it_and_nothing_else(make: Make) {
    let device = make(four_threads());
    let (x, y, z) = (node("x", 1), node("y", 1), node("z", 1));
    let first = context(&device).init_from_host(&x, &array(&[1])).unwrap();
    let first = first.init_from_host(&z, &array(&[5])).unwrap();
    let bad = code("bad", &[(&x, Access::ReadWrite), (&z, Access::Read)], &[], |_, _| panic!("no luck"));
    let copy = code("copy", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1])[0] = value;
    });
    let bad = first.link(&bad, &[x.clone(), z.clone()]).unwrap();
    let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let third = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let copy_on_second = second.link(&copy, &[x.clone(), y.clone()]).unwrap();

    let event = bad.run(&[]).unwrap();
    // Scheduled before or after the panic is noticed: the reader has no value either way.
    let read_back = copy_on_second.run(&[]).and_then(|_| copy_on_second.context().to_host(&y));
    assert_eq!(read_back.unwrap_err().failure().unwrap().message(), "no luck");
    let failure = event.sync().unwrap_err().failure().unwrap().clone();
    assert_eq!((failure.task(), failure.message()), ("bad", "no luck"));
    assert!(event.is_done());
    let text = second.to_host(&x).unwrap_err().to_string();
    assert_eq!(text, format!("node `x` has no value: `bad` failed on {}: no luck", first.stream().name()));

    assert_eq!(values(&third, &z), [5], "what the failed task only read keeps its value");
    let _ = third.from_host(&z, &array(&[6])).unwrap();
    assert_eq!(values(&third, &z), [6]);

    assert!(matches!(bad.run(&[]).unwrap_err(), Error::Poisoned { .. }));
    first.stream().reset().unwrap();
    second.stream().reset().unwrap();
    assert!(
        matches!(first.to_host(&x).unwrap_err(), Error::Poisoned { .. }),
        "a reset heals streams, not nodes"
    );
    let _ = first.from_host(&x, &array(&[9])).unwrap();
    copy_on_second.run(&[]).unwrap().sync().unwrap();
    assert_eq!(values(copy_on_second.context(), &y), [9]);
}

fn a_failed_stream_says_why_and_healthy_nodes_stay(make: Make) {
    let device = make(four_threads());
    let (x, y) = (node("x", 1), node("y", 1));
    let context = context(&device).init_from_host(&x, &array(&[1])).unwrap();
    let bad = code("bad", &[(&y, Access::Write)], &[], |_, _| panic!("no luck"));
    let bad = context.link(&bad, from_ref(&y)).unwrap();
    drop(bad.run(&[]));
    let error = bad.context().to_host(&x).unwrap_err();
    assert!(matches!(&error, Error::Driver { source: DriverError::Failed(_), .. }), "{error}");
    let expected = format!("`bad` failed on {}: no luck", context.stream().name());
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert!(matches!(bad.context().to_host(&y), Err(Error::Poisoned { .. })));
    assert!(context.stream().sync().is_err());
    context.stream().reset().unwrap();
    context.stream().sync().unwrap();
    assert_eq!(values(bad.context(), &x), [1]);
}

fn dropping_everything_runs_what_is_pending(make: Make) {
    let device = make(four_threads());
    let x = node("x", 1);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let code = code("slow", &[(&x, Access::Write)], &[], move |_, _| {
        thread::sleep(Duration::from_micros(300));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let routine = context(&device).link(&code, &[x]).unwrap();
    (0..49).for_each(|_| drop(routine.run(&[]).unwrap()));
    let last = routine.run(&[]).unwrap();
    drop(code);
    drop(routine);
    assert_eq!(count.load(Ordering::Relaxed), 50, "the stream ended after its tasks");
    assert!(last.is_done());
    drop(device);
    last.sync().unwrap();
    drop(last);
    assert_eq!(Arc::strong_count(&count), 1, "no task, module or thread is left");
}

fn memory_returns_to_zero(make: Make) {
    let device = make(four_threads());
    let (x, y) = (node("x", 1000), node("y", 1 << 20));
    let parent = context(&device).init_from_host(&x, &array(&[1; 1000])).unwrap();
    assert_eq!(device.memory().live_bytes, 8000);
    let code = code("fill", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1]).fill(value);
    });
    for _ in 0..3 {
        let routine = parent.link(&code, &[x.clone(), y.clone()]).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y)[1 << 19], 1);
        assert_eq!(device.memory().live_bytes, 8000 + (8 << 20));
        let again = routine.context().link(&code, &[x.clone(), y.clone()]).unwrap();
        assert_eq!(device.memory().live_bytes, 8000 + (8 << 20), "the second link allocates nothing");
        drop((routine, again));
        device.sync().unwrap();
        assert_eq!(device.memory().live_bytes, 8000);
    }
    assert_eq!(values(&parent, &x)[0], 1, "the parent kept its own");
    drop(parent);
    assert_eq!(device.memory().live_bytes, 0);
    assert_eq!(device.driver().used_memory(), 0);
    assert_eq!(device.memory().peak_bytes, 8000 + (8 << 20));
    device.reset_peak();
    assert_eq!(device.memory().peak_bytes, 0);
}

fn sleeping_and_waking_loses_nothing(make: Make) {
    let device = make(four_threads());
    let x = node("x", 1);
    let context = context(&device).init_from_host(&x, &array(&[0])).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], |args, _| write(&mut args[0])[0] += 1);
    let contexts = [context.clone(), context.on_stream(&device.new_stream().unwrap()).unwrap()];
    let routines = contexts.map(|context| context.link(&code, from_ref(&x)).unwrap());
    thread::scope(|scope| {
        for id in 0..3u64 {
            let routines = &routines;
            scope.spawn(move || {
                let mut random = Numbers::new(id + 1);
                for _ in 0..600 {
                    let event = routines[random.below(2)].run(&[]).unwrap();
                    if random.below(2) == 0 {
                        event.sync().unwrap();
                    }
                    // Around the time after which a worker goes to sleep.
                    thread::sleep(Duration::from_micros(random.below(50) as u64));
                }
            });
        }
    });
    assert_eq!(values(&context, &x), [1800]);
}

fn a_failed_link_leaves_nothing_allocated(make: Make) {
    let device = make(Config { memory_limit: Some(1 << 20), ..Config::default() });
    let (x, big) = (node("x", 16), node("big", 1 << 20));
    let fits = node("fits", 1 << 14);
    let context = context(&device).init_from_host(&x, &array(&[0; 16])).unwrap();
    device.sync().unwrap();
    let before = (device.memory().live_bytes, device.driver().used_memory());
    let no_op = |nodes: &[(&TensorNode, Access)]| code("fill", nodes, &[], |_, _| ());
    let error = context
        .link(&no_op(&[(&fits, Access::Write), (&big, Access::Write)]), &[fits.clone(), big.clone()])
        .unwrap_err();
    assert!(matches!(&error, Error::Driver { source: DriverError::OutOfMemory { .. }, .. }), "{error}");
    assert!(error.to_string().contains("`big`"), "{error}");
    assert!(matches!(context.init_from_host(&big, &array(&[0; 1 << 20])), Err(Error::Driver { .. })));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), before);
    assert!(context.link(&no_op(&[(&fits, Access::Write)]), from_ref(&fits)).is_ok());

    // A kernel that is missing is noticed after the memory was allocated; that goes back as well.
    let mut broken = (*no_op(&[(&fits, Access::Write)])).clone();
    broken.artifact.payload = codegen_core::Payload::Host(HostModule::interpreted(vec![]));
    let error = context.link(&Arc::new(broken), &[fits]).unwrap_err();
    assert!(matches!(error, Error::Driver { source: DriverError::NoSuchEntry { .. }, .. }), "{error}");
    device.sync().unwrap();
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), before);
}

fn linking_names_what_is_missing_or_does_not_fit(make: Make) {
    let device = make(Config::default());
    let context = context(&device);
    let (x, y) = (node("weights", 4), node("y", 4));
    let reads = code("step", &[(&x, Access::Read), (&y, Access::Write)], &[], |_, _| ());
    let link = |nodes: &[TensorNode]| context.link(&reads, nodes).unwrap_err().to_string();
    let expected =
        format!("routine `step`: the linked context ({}) lacks node `weights`", context.stream().name());
    assert!(link(&[x.clone(), y.clone()]).starts_with(&expected));
    assert!(link(&[]).contains("no handle for node `weights` (position 0, 0 handles given)"));
    assert!(link(&[node("other", 5), y.clone()]).contains("has sizes [4], expected [5]"));
    let floats = TensorNode::builder("floats").dims([4]).dtype(DType::F32).build().unwrap();
    assert!(link(&[floats, y.clone()]).contains("has elements of i64, expected f32"));
    let recurrent = code("sum", &[(&x, Access::ReadWrite)], &[], |_, _| ());
    assert!(matches!(context.link(&recurrent, from_ref(&x)), Err(Error::ContextLacksNode { .. })));

    let params = vec![Param::MergeBuffer { bytes: 32 }];
    let call = KernelCall { kernel: 0, args: vec![Slot::Merge(NodeRef(0))], bindings: vec![] };
    let module = HostModule::interpreted(vec![body(|_, _| ())]);
    let merge =
        many_kernels("merge", from_ref(&x), &[], vec![abi("merge", params)], module, vec![call], vec![]);
    let error = context.link(&merge, from_ref(&x)).unwrap().run(&[]).unwrap_err();
    assert!(matches!(error, Error::MergeBuffer { .. }), "{error}");

    let small = Device::with_pool_cap(Arc::new(Cpu::inline(Config::default())), 0, 16);
    let error = support::context(&small).init_from_host(&x, &array(&[0; 4])).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("node `weights` needs 32 bytes on {}, whose pools have at most 16", small.name())
    );

    let context = context.init_from_host(&x, &array(&[0; 4])).unwrap();
    let routine = context.link(&reads, &[x.clone(), y.clone()]).unwrap();
    assert_eq!((routine.name(), routine.inputs(), routine.outputs()), ("step", &[x][..], &[y][..]));
    assert_eq!(routine.merge_buffer_input(), None);
    assert!(routine.context().parent().unwrap().parent().is_some());
}

fn transfers_name_what_does_not_fit(make: Make) {
    let device = make(Config::default());
    let context = context(&device);
    let (x, v) = (node("x", 2), node("hidden", 2));
    v.update_memory_mode(MemoryMode::Virtual, Reason::new("the test says so")).unwrap();
    let text = |error: Error| error.to_string();
    let absent = text(context.to_host(&x).unwrap_err());
    assert!(absent.starts_with("node `x` is not in this context (") && absent.contains(":0:0)"), "{absent}");
    let absent = text(context.from_host(&x, &array(&[1, 2])).unwrap_err());
    assert!(absent.starts_with("node `x` is not in this context"), "{absent}");
    let expected = "node `hidden` is virtual: it is computed where it is used and has no memory to ";
    assert_eq!(text(context.to_host(&v).unwrap_err()), format!("{expected}read"));
    assert_eq!(
        text(context.init_from_host(&v, &array(&[1, 2])).unwrap_err()),
        format!("{expected}initialise")
    );
    let shape = text(context.init_from_host(&x, &array(&[1])).unwrap_err());
    assert_eq!(shape, "node `x`: the host array has sizes [1], expected [2]");
    let floats = HostArray::from_slice(&[1f32, 2.], [2]).unwrap();
    let dtype = text(context.init_from_host(&x, &floats).unwrap_err());
    assert_eq!(dtype, "node `x`: the host array has elements of f32, expected i64");
    let context = context.init_from_host(&x, &array(&[1, 2])).unwrap();
    assert!(matches!(context.init_from_host(&x, &array(&[1, 2])), Err(Error::AlreadyInContext { .. })));
    let other = make(Config::default()).new_stream().unwrap();
    assert!(matches!(context.on_stream(&other), Err(Error::OtherDevice { .. })));
    let event = other.all_work().unwrap();
    context.stream().will_wait_for(&event).unwrap();
}

fn bindings_are_checked_before_anything_runs(make: Make) {
    let device = make(Config::default());
    let x = node("x", 1);
    let symbols = [symbol("step", 44), symbol("row", 3)];
    let code = code("pick", &[(&x, Access::Write)], &symbols, |args, bindings| {
        write(&mut args[0])[0] = 100 * bindings[0] + bindings[1];
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    let error = |bindings: &[i64]| routine.run(bindings).unwrap_err().to_string();
    assert_eq!(error(&[1]), "routine `pick`: expected 2 bindings (@step, @row), found 1");
    assert_eq!(error(&[44, 0]), "routine `pick`: binding @step = 44 is outside 0..44");
    assert_eq!(error(&[0, -1]), "routine `pick`: binding @row = -1 is outside 0..3");
    assert_eq!(values(routine.context(), &x), [0], "nothing ran");
    drop(routine.run(&[43, 2]).unwrap());
    assert_eq!(values(routine.context(), &x), [4302]);
    assert_eq!(routine.bindings(), symbols);
}

fn temporaries_carry_values_between_kernels(make: Make) {
    let device = make(Config::default());
    let (x, y) = (node("x", 4), node("y", 4));
    let double = |args: &mut [codegen_core::host::HostArg<'_>], _: &[i64]| {
        let doubled: Vec<i64> = read(&args[0]).iter().map(|value| 2 * value).collect();
        write(&mut args[1]).copy_from_slice(&doubled);
    };
    let params = vec![memory(&x, Access::Read), memory(&y, Access::Write)];
    let kernels = vec![abi("to_temp", params.clone()), abi("from_temp", params)];
    let call = |kernel, from, to| KernelCall { kernel, args: vec![from, to], bindings: vec![] };
    let (x_slot, y_slot, temp) = (Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1)), Slot::Temp(TempId(0)));
    let code = many_kernels(
        "twice",
        &[x.clone(), y.clone()],
        &[],
        kernels,
        HostModule::interpreted(vec![body(double), body(double)]),
        vec![call(0, x_slot, temp), call(1, temp, y_slot)],
        vec![Temp { bytes: 32, offset: 64, live: (0, 1) }],
    );
    let context = context(&device).init_from_host(&x, &array(&[1, 2, 3, 4])).unwrap();
    let routine = context.link(&code, &[x, y.clone()]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
    assert_eq!(device.memory().live_bytes, 32 + 32 + 96);
}

fn locations_are_the_same_in_every_run(make: Make) {
    let describe = || {
        let device = make(Config::default());
        let (a, b, out) = (node("a", 1), node("b", 1), node("out", 1));
        let fill = code("fill", &[(&a, Access::Write), (&b, Access::Write)], &[], |_, _| ());
        let context = context(&device).init_from_host(&out, &array(&[1])).unwrap();
        let context = context.link(&fill, &[a, b]).unwrap().context().clone();
        let places =
            context.nodes().into_iter().map(|n| format!("{}: {}", n.name(), context.location(&n).unwrap()));
        places.collect::<Vec<_>>()
    };
    let expected = ["a: pool 2 offset 0", "b: pool 2 offset 64", "out: pool 1 offset 0"];
    assert_eq!(describe(), expected);
    assert_eq!(describe(), expected);
}

fn a_batch_shares_what_its_members_allocate(make: Make) {
    let device = make(Config::default());
    let (x, y) = (node("x", 1), node("y", 1));
    let first = code("first", &[(&x, Access::Write)], &[], |args, _| write(&mut args[0])[0] = 3);
    let second = code("second", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1])[0] = value + 1;
    });
    let batch = [Some((first, vec![x.clone()])), None, Some((second, vec![x.clone(), y.clone()]))];
    let (context, routines) = context(&device).link_batch(&batch).unwrap();
    assert_eq!(routines.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    routines.iter().flatten().for_each(|routine| drop(routine.run(&[]).unwrap()));
    assert_eq!((values(&context, &x), values(&context, &y)), (vec![3], vec![4]));
    assert_eq!(device.memory().live_bytes, 64 + 8, "one pool for both");
}

/// Adds one to each element of its part, with a checked look at its scratch memory.
unsafe extern "C" fn add_one(args: *const *mut u8, _: *const i64, scratch: *mut u8, begin: u64, end: u64) {
    assert!((scratch as usize).is_multiple_of(64) && !scratch.is_null());
    // SAFETY: the ABI gives one parameter of at least `end` elements, and 64 bytes of scratch.
    #[allow(unsafe_code, reason = "a native kernel")]
    unsafe {
        scratch.write_bytes(0xff, 64);
        let x = (*args).cast::<i64>();
        (begin..end).for_each(|i| *x.add(i as usize) += 1);
    }
}

fn native_kernels_cover_their_range_once(make: Make) {
    for (extent, grain) in [(1, 1), (7, 1), (1000, 3), (100_000, 1000), (100_000, 1 << 40)] {
        let device = make(four_threads());
        let x = node("x", extent as usize);
        let context = context(&device).init_from_host(&x, &array(&vec![0; extent as usize])).unwrap();
        let launch = Launch { extent, grain, threads: 1 };
        let code = native("add_one", &[(&x, Access::ReadWrite)], launch, 64, add_one);
        let streams: Vec<Stream> = (0..3).map(|_| device.new_stream().unwrap()).collect();
        for i in 0..60 {
            let context = context.on_stream(&streams[i % 3]).unwrap();
            drop(context.link(&code, from_ref(&x)).unwrap().run(&[]).unwrap());
        }
        assert!(values(&context, &x).iter().all(|value| *value == 60), "extent {extent}, grain {grain}");
    }
}

fn a_task_cannot_wait_for_itself(make: Make) {
    let device = make(Config { queue_capacity: 4, ..four_threads() });
    let x = node("x", 1);
    let own = Arc::new(Mutex::new(None::<Stream>));
    let results = Arc::new(Mutex::new(Vec::new()));
    let (stream, seen) = (Arc::clone(&own), Arc::clone(&results));
    let code = code("knot", &[(&x, Access::Write)], &[], move |_, _| {
        let stream = stream.lock().unwrap().clone().unwrap();
        // Either the first enqueueing is refused, or the event cannot be waited for, or the queue fills.
        let mut event = stream.all_work();
        let waited = event.as_ref().map_or(Ok(()), |event| event.sync());
        for _ in 0..8 {
            event = event.and_then(|_| stream.all_work());
        }
        seen.lock().unwrap().extend([waited.err(), event.err()]);
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    *own.lock().unwrap() = Some(routine.context().stream().clone());
    routine.run(&[]).unwrap().sync().unwrap();
    let errors: Vec<_> = results.lock().unwrap().drain(..).flatten().collect();
    let is_self_wait = |e: &Error| matches!(e, Error::Driver { source: DriverError::SelfWait { .. }, .. });
    assert!(!errors.is_empty() && errors.iter().all(is_self_wait), "{errors:?}");
    own.lock().unwrap().take();
    assert_eq!(values(routine.context(), &x), [0], "the stream goes on");
}

fn a_fresh_output_is_zero_where_nothing_wrote(make: Make) {
    let device = make(Config::default());
    let y = node("y", 3);
    let code = code("corner", &[(&y, Access::Write)], &[], |args, _| write(&mut args[0])[1] = 5);
    for _ in 0..3 {
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [0, 5, 0]);
    }
}

fn padding_comes_back(make: Make) {
    let device = make(Config::default());
    let padding =
        Padding { axes: [AxisPadding { left: 1, right: 2 }].into_iter().collect(), neutral: Some(0.0) };
    let builder = TensorNode::builder("padded").dims([2]).padding(padding.clone()).dtype(DType::F32);
    let x = builder.build().unwrap();
    let mut host = HostArray::zeros_padded(DType::F32, [2], padding).unwrap();
    host.set_values(&[3., 4.]).unwrap();
    let context = context(&device).init_from_host(&x, &host).unwrap();
    assert_eq!(context.to_host(&x).unwrap(), host);
}

fn device_names_and_suggestions(make: Make) {
    use device_runtime::StreamStrategy::*;
    let device = make(four_threads());
    assert!(["multicore:0", "inline:0"].contains(&device.name().as_str()));
    assert_ne!(device.device_id(), make(Config::default()).device_id());
    let stream = device.new_stream().unwrap();
    assert_eq!(stream.name(), format!("{}:0", device.name()));
    assert_eq!(device.new_stream().unwrap().stream_id().0, 1);
    assert_eq!(device.new_stream().unwrap().stream_id().0, 2, "numbers are not reused");
    assert_eq!(device.streams().as_slice(), from_ref(&stream));
    assert!(stream.debug_info().starts_with(&format!("{}: ", stream.name())));
    assert!(device.driver().is_initialized());
    assert_eq!(device.suggested_num_streams(), 1);
    device.driver().initialize(MostParallelStreams);
    assert_eq!(device.suggested_num_streams(), 1, "the first choice counts");
    for (strategy, suggested) in [(OnlyDevicesParallel, 1), (ForParallelCopying, 2), (MostParallelStreams, 4)]
    {
        let cpu = Cpu::multicore(four_threads());
        device_runtime::Driver::initialize(&cpu, strategy);
        assert_eq!(support::device(cpu).suggested_num_streams(), suggested);
    }
    assert!(device.driver().static_properties().iter().any(|(name, _)| *name == "threads"));
}
