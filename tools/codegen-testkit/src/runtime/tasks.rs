//! Host functions among the tasks of a stream, and combined tasks.

use std::{
    panic::panic_any,
    sync::{Arc, Mutex},
};

use codegen_core::Access;
use device_runtime::{DriverError, RunError, Task};

use super::{DriverFactory, Setup, hand_made::*, open};

/// Host functions among kernels.
pub fn functions_run_in_the_order_of_the_stream(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (x, log) = (node("x", 1), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&log);
    let note = code("note", &[(&x, Access::Write)], &[symbol("i", 10)], move |args, bindings| {
        write(&mut args[0])[0] = bindings[0];
        seen.lock().unwrap().push(bindings[0]);
    });
    let routine = context(&device).link(&note, &[x]).unwrap();
    let stream = routine.context().stream().clone();
    for i in 0..10 {
        routine.schedule(&[i]).unwrap().run().unwrap();
        let log = Arc::clone(&log);
        let note = move || {
            log.lock().unwrap().push(100 + i);
            Ok(())
        };
        drop(stream.schedule_task("host", note).unwrap());
    }
    stream.sync().unwrap();
    assert_eq!(*log.lock().unwrap(), (0..10).flat_map(|i| [i, 100 + i]).collect::<Vec<_>>());
    assert!(matches!(routine.schedule(&[10]), Err(RunError::BindingRange { .. })));
}

/// An error or a panic of a host function fails its stream.
pub fn a_function_that_fails_or_panics_fails_its_stream(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let stream = device.new_stream().unwrap();
    for panics in [false, true] {
        let fail = move || if panics { panic!("no luck") } else { Err("no luck".to_owned()) };
        let error = stream.schedule_task("errand", fail).and_then(|event| event.sync()).unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!((failure.task(), failure.message()), ("errand", "no luck"));
        assert!(stream.schedule_task("late", || Ok(())).is_err());
        stream.reset().unwrap();
        stream.schedule_task("later", || Ok(())).unwrap().sync().unwrap();
    }
}

/// Functions that change nodes, on a stream of their own, take turns with routines that change them.
pub fn functions_on_nodes_take_turns_with_routines(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let (x, y) = (node("x", 3), node("y", 2));
    let add = code("add", &[(&x, Access::ReadWrite)], &[symbol("i", 10)], |args, bindings| {
        write(&mut args[0]).iter_mut().for_each(|x| *x += bindings[0]);
    });
    let first = context(&device).init_from_host(&x, array(&[1, 2, 3])).unwrap();
    let first = first.init_from_host(&y, array(&[7, 8])).unwrap();
    let second = device.new_stream().unwrap();
    let routine = first.link(&add, std::slice::from_ref(&x)).unwrap();
    let mut expected = ([1, 2, 3], [7, 8]);
    for i in 0..9 {
        routine.run(&[i]).unwrap();
        let nodes = [y.clone(), x.clone()];
        drop(first.access_on_host(&second, &nodes, "twice", |memory| {
            let [y, x] = memory else { return Err("expected two nodes".to_owned()) };
            let (y, x): (&mut [i64], &mut [i64]) = (bytemuck::cast_slice_mut(y), bytemuck::cast_slice_mut(x));
            x.iter_mut().for_each(|x| *x *= 2);
            y[0] += x[0];
            Ok(())
        }));
        expected.0 = expected.0.map(|x| 2 * (x + i));
        expected.1[0] += expected.0[0];
    }
    assert_eq!(values(&first, &x), expected.0);
    assert_eq!(values(&first, &y), expected.1);
}

/// A function that fails leaves its nodes without values, and names itself.
pub fn a_function_on_nodes_that_fails_poisons_them(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, y] = ["x", "y"].map(|name| node(name, 1));
    let first = context(&device).init_from_host(&x, array(&[5])).unwrap();
    let first = first.init_from_host(&y, array(&[6])).unwrap();
    for panics in [false, true] {
        let second = device.new_stream().unwrap();
        let fail =
            move |_: &mut [&mut [u8]]| if panics { panic!("no luck") } else { Err("no luck".to_owned()) };
        let failed = first
            .access_on_host(&second, std::slice::from_ref(&x), "errand", fail)
            .and_then(|event| event.sync());
        let failure = failed.unwrap_err().failure().cloned().unwrap();
        assert_eq!((failure.task(), failure.message()), ("errand", "no luck"));
        let error = first.to_host(&x).unwrap_err();
        assert_eq!(error.failure().map(|failure| failure.message()), Some("no luck"));
        assert_eq!(values(&first, &y), [6]);
        first.from_host(&x, array(&[5])).unwrap().sync().unwrap();
        assert_eq!(values(&first, &x), [5]);
    }
}

/// A function takes each node once, only nodes with memory, and only streams of their device.
pub fn a_function_takes_each_node_once(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let [x, absent] = ["x", "absent"].map(|name| node(name, 1));
    let context = context(&device).init_from_host(&x, array(&[5])).unwrap();
    let unused = |_: &mut [&mut [u8]]| Err("it ran".to_owned());
    let stream = context.stream();
    let error = context.access_on_host(stream, &[x.clone(), x.clone()], "both", unused).unwrap_err();
    assert!(matches!(error, RunError::Driver { source: DriverError::AccessOverlap { .. }, .. }), "{error}");
    let error = context.access_on_host(stream, &[absent], "none", unused).unwrap_err();
    assert!(matches!(error, RunError::NotInContext { .. }), "{error}");
    let elsewhere = open(make, &Setup::default()).new_stream().unwrap();
    let error =
        context.access_on_host(&elsewhere, std::slice::from_ref(&x), "elsewhere", unused).unwrap_err();
    assert!(matches!(error, RunError::OtherDevice { .. }), "{error}");
    assert_eq!(values(&context, &x), [5]);
}

/// A panic payload whose destructor panics with another such payload.
struct Nested;

impl Drop for Nested {
    fn drop(&mut self) {
        panic_any(Nested);
    }
}

/// The payload of a panic is a value of the task, and its destructor may panic as well: the stream fails, its
/// worker continues.
pub fn a_panic_whose_payload_panics_fails_the_stream_alone(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let x = node("x", 1);
    let bad = code("bad", &[(&x, Access::Write)], &[], |_, _| panic_any(Nested));
    let routine = context(&device).link(&bad, &[x]).unwrap();
    let stream = routine.context().stream().clone();
    for is_kernel in [false, true] {
        let run = || match is_kernel {
            true => routine.run(&[]),
            false => stream.schedule_task("bad", || panic_any(Nested)),
        };
        // On streams that run tasks immediately, submission returns the failure.
        let error = run().and_then(|event| event.sync()).unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!((failure.task(), failure.message()), ("bad", "it panicked"));
        stream.reset().unwrap();
        stream.schedule_task("later", || Ok(())).unwrap().sync().unwrap();
    }
}

/// Tasks combined from others.
pub fn enscheduled_tasks_run_on_the_stream(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let stream = device.new_stream().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let log = Arc::clone(&log);
        move || {
            log.lock().unwrap().push(text);
            Ok(())
        }
    };
    let task = Task::new("b", note("b")).prepend(note("a")).enschedule(&stream).append(note("scheduled"));
    for _ in 0..3 {
        task.run().unwrap();
    }
    stream.sync().unwrap();
    let on_stream: Vec<_> =
        log.lock().unwrap().iter().filter(|text| **text != "scheduled").copied().collect();
    assert_eq!(on_stream, ["a", "b", "a", "b", "a", "b"]);
    let failing = Task::new("bad", || Err(RunError::NotHosted { node: "x".to_owned() })).enschedule(&stream);
    failing.run().unwrap();
    let error = stream.sync().unwrap_err();
    assert_eq!((error.failure().unwrap().task()), "bad");
}
