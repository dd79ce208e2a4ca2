//! Allocation, its lifetime, and the contents of new memory.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use codegen_core::{Access, Artifact, Code, KernelCall, Slot, Temp, TempId, host::HostArg};
use device_runtime::{Context, DriverError, MergeBufferUse, RunError};
use lowered_ir::ir::NodeRef;
use tnode::TensorNode;

use super::{DriverFactory, Setup, four_threads, hand_made::*, open};

/// Tasks run although all their owners are dropped, and leave no memory allocated.
pub fn dropping_everything_runs_what_is_pending(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
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

/// Live and peak bytes, in the runtime and in the driver.
pub fn memory_returns_to_zero(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let (x, y) = (node("x", 1000), node("y", 1 << 20));
    let parent = context(&device).init_from_host(&x, array(&[1; 1000])).unwrap();
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

/// Out of memory, or a kernel that is missing: earlier allocations are freed.
pub fn a_failed_link_leaves_nothing_allocated(make: DriverFactory<'_>) {
    let device = open(make, &Setup { memory_limit: Some(1 << 20), ..Setup::default() });
    let (x, big) = (node("x", 16), node("big", 1 << 20));
    let fits = node("fits", 1 << 14);
    let context = context(&device).init_from_host(&x, array(&[0; 16])).unwrap();
    device.sync().unwrap();
    let before = (device.memory().live_bytes, device.driver().used_memory());
    let no_op = |nodes: &[(&TensorNode, Access)]| code("fill", nodes, &[], |_, _| ());
    let error = context
        .link(&no_op(&[(&fits, Access::Write), (&big, Access::Write)]), &[fits.clone(), big.clone()])
        .unwrap_err();
    assert!(matches!(&error, RunError::Driver { source: DriverError::OutOfMemory { .. }, .. }), "{error}");
    assert!(error.to_string().contains("`big`"), "{error}");
    assert!(matches!(context.init_from_host(&big, array(&[0; 1 << 20])), Err(RunError::Driver { .. })));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), before);
    assert!(context.link(&no_op(&[(&fits, Access::Write)]), from_ref(&fits)).is_ok());

    // Code that the device does not load fails after the memory was allocated; that memory is freed as well.
    let code = no_op(&[(&fits, Access::Write)]);
    let elsewhere = Artifact::other(Arc::new(()), code.artifact().kernels().to_vec());
    let foreign = Code::new(code.schedule().clone(), elsewhere).unwrap();
    let error = context.link(&Arc::new(foreign), &[fits]).unwrap_err();
    assert!(
        matches!(error, RunError::Driver { source: DriverError::UnsupportedPayload { .. }, .. }),
        "{error}"
    );
    device.sync().unwrap();
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), before);
}

/// Two kernels with a temporary between them.
pub fn temporaries_carry_values_between_kernels(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (x, y) = (node("x", 4), node("y", 4));
    let double = |args: &mut [HostArg<'_>], _: &[i64]| {
        let doubled: Vec<i64> = read(&args[0]).iter().map(|value| 2 * value).collect();
        write(&mut args[1]).copy_from_slice(&doubled);
    };
    let params = vec![memory(&x, Access::Read), memory(&y, Access::Write)];
    let kernels =
        vec![(body(double), abi("to_temp", params.clone())), (body(double), abi("from_temp", params))];
    let call = |kernel, from, to| KernelCall { kernel, args: vec![from, to], bindings: vec![] };
    let (x_slot, y_slot, temp) = (Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1)), Slot::Temp(TempId(0)));
    let code = many_kernels(
        "twice",
        &[x.clone(), y.clone()],
        &[],
        interpreted(kernels),
        vec![call(0, x_slot, temp), call(1, temp, y_slot)],
        vec![Temp { node: NodeRef(0), bytes: 32, offset: 64, live: (0, 1) }],
    );
    let context = context(&device).init_from_host(&x, array(&[1, 2, 3, 4])).unwrap();
    let routine = context.link(&code, &[x, y.clone()]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
    assert_eq!(device.memory().live_bytes, 32 + 32 + 96);
}

/// Pools and offsets are functions of the program.
pub fn locations_are_the_same_in_every_run(make: DriverFactory<'_>) {
    let describe = || {
        let device = open(make, &Setup::default());
        let (a, b, out) = (node("a", 1), node("b", 1), node("out", 1));
        let fill = code("fill", &[(&a, Access::Write), (&b, Access::Write)], &[], |_, _| ());
        let context = context(&device).init_from_host(&out, array(&[1])).unwrap();
        let context = context.link(&fill, &[a, b]).unwrap().context().clone();
        let places =
            context.nodes().into_iter().map(|n| format!("{}: {}", n.name(), context.location(&n).unwrap()));
        places.collect::<Vec<_>>()
    };
    let expected = ["a: pool 2 offset 0", "b: pool 2 offset 64", "out: pool 1 offset 0"];
    assert_eq!(describe(), expected);
    assert_eq!(describe(), expected);
}

/// Memory that a link allocates counts as zeros.
pub fn a_fresh_output_is_zero_where_nothing_wrote(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let y = node("y", 3);
    let code = code("corner", &[(&y, Access::WritePart)], &[], |args, _| write(&mut args[0])[1] = 5);
    for _ in 0..3 {
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [0, 5, 0]);
    }
}

/// A context in which a node of three elements has unwritten memory: a linked routine overwrites it.
fn with_unwritten(context: &Context, y: &TensorNode) -> Context {
    let fill = code("fill", &[(y, Access::Write)], &[], |args, _| write(&mut args[0]).fill(7));
    context.link(&fill, from_ref(y)).unwrap().context().clone()
}

/// Memory that the first task overwrites is not zeroed.
pub fn what_the_first_task_overwrites_is_not_zeroed(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, y, z, w] = ["x", "y", "z", "w"].map(|name| node(name, 3));
    let uses = [(&x, Access::Write), (&y, Access::WritePart)];
    let both = code("both", &uses, &[], |args, _| {
        write(&mut args[0]).fill(3);
        write(&mut args[1])[1] = 4;
    });
    let routine = context(&device).link(&both, &[x.clone(), y.clone()]).unwrap();
    assert_eq!(device.zero_fills(), 0, "a link zeroes nothing");
    (0..2).for_each(|_| drop(routine.run(&[]).unwrap()));
    let written = [values(routine.context(), &x), values(routine.context(), &y)];
    assert_eq!(written, [vec![3, 3, 3], vec![0, 4, 0]]);
    assert_eq!(device.zero_fills(), 1, "y alone, once");

    let copied = with_unwritten(routine.context(), &z);
    let _ = copied.from_host(&z, array(&[1, 2, 3])).unwrap();
    assert_eq!(values(&copied, &z), [1, 2, 3]);
    let other = with_unwritten(&context(&device), &w);
    let source = context(&device).init_from_host(&w, array(&[4, 5, 6])).unwrap();
    let _ = other.device_to_device(&w, MergeBufferUse::No, &source).unwrap();
    assert_eq!(values(&other, &w), [4, 5, 6]);
    assert_eq!(device.zero_fills(), 1, "transfers overwrite their nodes");
}

/// Every use of unwritten memory finds zeros.
pub fn unwritten_nodes_read_as_zeros(make: DriverFactory<'_>) {
    let [device, other] = [(); 2].map(|()| open(make, &four_threads()));
    let y = node("y", 3);
    let unwritten = || with_unwritten(&context(&device), &y);
    assert_eq!(values(&unwritten(), &y), [0; 3], "copied to the host");
    let add = code("add", &[(&y, Access::ReadWrite)], &[], |args, _| {
        write(&mut args[0]).iter_mut().for_each(|value| *value += 5);
    });
    let routine = unwritten().link(&add, from_ref(&y)).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [5; 3], "read by a routine");
    let shared = unwritten();
    let twin = shared.on_stream(&device.new_stream().unwrap()).unwrap();
    assert_eq!([values(&twin, &y), values(&shared, &y)], [[0; 3]; 2], "from another stream");
    for to in [&device, &other] {
        let copy = context(to).init_from_device(&y, &unwritten()).unwrap();
        assert_eq!(values(&copy, &y), [0; 3], "copied to {}", to.name());
    }
    assert_eq!((device.zero_fills(), other.zero_fills()), (5, 0));
}

/// A device may reject a run that only reads what nothing has written, such as the result of a routine that
/// has not run.
pub fn a_read_before_the_first_write_is_an_error_on_request(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (x, y) = (node("x", 3), node("y", 3));
    let first = code("first", &[(&x, Access::Write)], &[], |args, _| write(&mut args[0]).fill(7));
    let first = context(&device).link(&first, from_ref(&x)).unwrap();
    let second = code("second", &[(&x, Access::Read), (&y, Access::WritePart)], &[], |args, _| {
        let value = read(&args[0])[1];
        write(&mut args[1])[1] = value;
    });
    let second = first.context().link(&second, &[x.clone(), y.clone()]).unwrap();
    device.reject_unwritten_reads(true);
    let error = second.run(&[]).unwrap_err();
    let RunError::Unwritten { node, task } = &error else { panic!("{error}") };
    assert!(node == "x" && task.contains("second"), "{error}");
    drop(first.run(&[]).unwrap());
    drop(second.run(&[]).unwrap());
    assert_eq!(values(second.context(), &y), [0, 7, 0], "y, which is also written, began with zeros");
    device.reject_unwritten_reads(false);
    let unwritten = with_unwritten(&context(&device), &x);
    let third = code("third", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let values = read(&args[0]).to_vec();
        write(&mut args[1]).copy_from_slice(&values);
    });
    let third = unwritten.link(&third, &[x.clone(), y.clone()]).unwrap();
    drop(third.run(&[]).unwrap());
    assert_eq!(values(third.context(), &y), [0; 3]);
}

/// Memory stays unwritten until a task that overwrites it is handed over.
pub fn a_rejected_task_leaves_memory_unwritten(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let (x, y) = (node("x", 1), node("y", 3));
    let context = context(&device).init_from_host(&x, array(&[1])).unwrap();
    let copy = code("copy", &[(&x, Access::Read), (&y, Access::Write)], &[], |args, _| {
        let value = read(&args[0])[0];
        write(&mut args[1]).fill(value);
    });
    let copy = context.link(&copy, &[x.clone(), y.clone()]).unwrap();
    let bad = code("bad", &[(&x, Access::ReadWrite)], &[], |_, _| panic!("no luck"));
    let bad = context.link(&bad, from_ref(&x)).unwrap();
    bad.run(&[]).unwrap().sync().unwrap_err();
    copy.run(&[]).unwrap_err();
    context.stream().reset().unwrap();
    assert!(matches!(copy.run(&[]).unwrap_err(), RunError::Poisoned { .. }));
    assert_eq!(values(copy.context(), &y), [0; 3], "x has no value, and y was never written");
    assert_eq!(device.zero_fills(), 1);
}

/// A failed task that would overwrite unwritten memory poisons it.
pub fn a_failed_write_of_unwritten_memory_poisons_it(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let y = node("y", 3);
    let bad = code("bad", &[(&y, Access::Write)], &[], |_, _| panic!("no luck"));
    let bad = context(&device).link(&bad, from_ref(&y)).unwrap();
    bad.run(&[]).unwrap().sync().unwrap_err();
    bad.context().stream().reset().unwrap();
    assert!(matches!(bad.context().to_host(&y).unwrap_err(), RunError::Poisoned { .. }));
    let fill = code("fill", &[(&y, Access::Write)], &[], |args, _| write(&mut args[0]).fill(7));
    let fill = bad.context().link(&fill, from_ref(&y)).unwrap();
    drop(fill.run(&[]).unwrap());
    assert_eq!(values(fill.context(), &y), [7; 3]);
    assert_eq!(device.zero_fills(), 0);
}
