//! What is allocated, for how long, and what is in it.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use codegen_core::{
    Access, Artifact, Code, KernelCall, Slot, Temp, TempId,
    host::{HostArg, HostModule},
};
use device_runtime::{DriverError, Error};
use lowered_ir::ir::NodeRef;
use tnode::TensorNode;

use super::{Make, Setup, four_threads, hand_made::*, open};

/// Tasks run although everything they belong to is dropped, and nothing is left of them.
pub fn dropping_everything_runs_what_is_pending(make: Make<'_>) {
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
pub fn memory_returns_to_zero(make: Make<'_>) {
    let device = open(make, &four_threads());
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

/// Out of memory, or a kernel that is missing: what was allocated before goes back.
pub fn a_failed_link_leaves_nothing_allocated(make: Make<'_>) {
    let device = open(make, &Setup { memory_limit: Some(1 << 20), ..Setup::default() });
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

    // Code that the device does not load is noticed after the memory was allocated; that goes back as well.
    let code = no_op(&[(&fits, Access::Write)]);
    let elsewhere = Artifact::other(Arc::new(()), code.artifact().kernels().to_vec());
    let foreign = Code::new(code.schedule().clone(), elsewhere).unwrap();
    let error = context.link(&Arc::new(foreign), &[fits]).unwrap_err();
    assert!(matches!(error, Error::Driver { source: DriverError::UnsupportedPayload { .. }, .. }), "{error}");
    device.sync().unwrap();
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), before);
}

/// Two kernels with a temporary between them.
pub fn temporaries_carry_values_between_kernels(make: Make<'_>) {
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
        HostModule::interpreted(kernels),
        vec![call(0, x_slot, temp), call(1, temp, y_slot)],
        vec![Temp { node: NodeRef(0), bytes: 32, offset: 64, live: (0, 1) }],
    );
    let context = context(&device).init_from_host(&x, &array(&[1, 2, 3, 4])).unwrap();
    let routine = context.link(&code, &[x, y.clone()]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
    assert_eq!(device.memory().live_bytes, 32 + 32 + 96);
}

/// Pools and offsets are functions of the program.
pub fn locations_are_the_same_in_every_run(make: Make<'_>) {
    let describe = || {
        let device = open(make, &Setup::default());
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

/// A link zeroes what it allocates.
pub fn a_fresh_output_is_zero_where_nothing_wrote(make: Make<'_>) {
    let device = open(make, &Setup::default());
    let y = node("y", 3);
    let code = code("corner", &[(&y, Access::Write)], &[], |args, _| write(&mut args[0])[1] = 5);
    for _ in 0..3 {
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [0, 5, 0]);
    }
}
