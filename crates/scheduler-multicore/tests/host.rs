//! Host arrays in step with devices: transfers that happen by themselves, once, and only when they are needed.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(clippy::result_large_err, reason = "the runtime's errors, which nobody here keeps")]

mod support;

use std::{
    slice::from_ref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use codegen_core::Access;
use device_runtime::{Context, Device, Error, Event, Host, HostOptions, MergeBufferUse, Prepare, Routine};
use scheduler_multicore::{Config, Cpu};
use support::*;
use tnode::{HostArray, Hosted, MemoryMode, Reason, TensorNode};

fn multicore() -> Device {
    device(Cpu::multicore(Config::default()))
}

fn resident(host: &Host, name: &str, values: &[i64]) -> TensorNode {
    let node = node(name, values.len());
    host.insert(&node, array(values)).unwrap();
    node
}

/// `to = 2 from`.
fn double(context: &Context, from: &TensorNode, to: &TensorNode) -> Result<Routine, Error> {
    let code = code("double", &[(from, Access::Read), (to, Access::Write)], &[], |args, _| {
        let doubled: Vec<i64> = read(&args[0]).iter().map(|value| 2 * value).collect();
        write(&mut args[1]).copy_from_slice(&doubled);
    });
    context.link(&code, &[from.clone(), to.clone()])
}

#[test]
fn runs_upload_what_lags_and_reads_download_what_is_new() {
    let (device, host) = (multicore(), Host::default());
    let (x, y) = (resident(&host, "x", &[1, 2]), resident(&host, "y", &[0, 0]));
    let routine = double(&context(&device).with_host(&host), &x, &y).unwrap();
    assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()], "the link has given x its values");
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.get_values(&y).unwrap(), [2.0, 4.0]);
    host.set_value(&x, &[1], 50.0).unwrap();
    assert!(
        host.devices_not_lagging_host(&x).is_empty(),
        "whoever writes the host's array makes devices lag"
    );
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.get_values(&y).unwrap(), [2.0, 100.0]);
    assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()]);
    assert_eq!(host.points_1d(&y, None, 1).unwrap(), [100.0]);
}

#[test]
fn what_a_device_has_is_not_uploaded_again() {
    let (device, host) = (multicore(), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let routine = double(&context(&device).with_host(&host), &x, &y).unwrap();
    // The device's value is newer than the host's now, and stays.
    let _ = routine.context().from_host(&x, &array(&[7])).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!((host.get_values(&y).unwrap(), host.get_values(&x).unwrap()), (vec![14.0], vec![7.0]));
}

#[test]
fn devices_see_each_other_through_the_host() {
    let host = Host::default();
    let devices = [multicore(), multicore()];
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let contexts = devices.each_ref().map(|device| context(device).with_host(&host));
    let there = double(&contexts[0], &x, &y).unwrap();
    let back = double(&contexts[1], &y, &x).unwrap();
    for round in 0..5u32 {
        drop(there.run(&[]).unwrap());
        assert_eq!(host.devices_not_lagging_host(&y), [devices[0].device_id()]);
        drop(back.run(&[]).unwrap());
        assert_eq!(host.get_value(&x, &[0]).unwrap(), f64::from(4u32.pow(round + 1)));
    }
}

#[test]
fn without_automatic_transfers_nothing_moves_by_itself() {
    let device = multicore();
    let host = Host::new(HostOptions { automatic_transfers: false, ..HostOptions::default() });
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let context = context(&device).with_host(&host);
    assert!(matches!(double(&context, &x, &y), Err(Error::ContextLacksNode { .. })));
    let routine = double(&context.init_from_residence(&x).unwrap(), &x, &y).unwrap();
    host.set_values(&x, &[5.0]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [2], "x was not uploaded again");
    assert_eq!(host.get_values(&y).unwrap(), [0.0], "y was not downloaded");
    assert!(routine.context().upload(&x).unwrap().is_scheduled());
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [10]);
}

/// An event that is done when something is sent, with what keeps its stream.
fn gated(device: &Device) -> (mpsc::Sender<()>, Event, Routine) {
    let (send, receive) = mpsc::channel();
    let (x, receive) = (node("gate", 1), Mutex::new(receive));
    let code = code("gate", &[(&x, Access::Write)], &[], move |_, _| receive.lock().unwrap().recv().unwrap());
    let routine = context(device).link(&code, from_ref(&x)).unwrap();
    (send, routine.run(&[]).unwrap(), routine)
}

#[test]
fn prepared_reads_wait_for_all_and_transfer_the_newest() {
    let (device, host) = (multicore(), Host::default());
    let x = resident(&host, "x", &[0]);
    let ((first, one, _keep), (second, other, _keep_too)) = (gated(&device), gated(&device));
    let count = Arc::new(AtomicUsize::new(0));
    let fetch = |value: i64| {
        let count = Arc::clone(&count);
        move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<HostArray, Error>(array(&[value]))
        }
    };
    let prepared = Prepare::transfer(one.clone(), fetch(1));
    assert!(!prepared.is_done());
    host.prepare_read(&x, prepared).unwrap();
    host.prepare_read(&x, Prepare::transfer(other.clone(), fetch(2))).unwrap();
    let reader = std::thread::spawn({
        let (host, x) = (host.clone(), x.clone());
        move || host.get_values(&x).unwrap()
    });
    second.send(()).unwrap();
    other.sync().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!reader.is_finished(), "the first event is waited for too");
    first.send(()).unwrap();
    assert_eq!(reader.join().unwrap(), [2.0]);
    assert_eq!(count.load(Ordering::Relaxed), 1, "only the newest was transferred");
    assert_eq!(host.get_values(&x).unwrap(), [2.0]);
    assert_eq!(count.load(Ordering::Relaxed), 1, "once");
}

#[test]
fn prepared_writes_are_waited_for() {
    let (device, host) = (multicore(), Host::default());
    let x = resident(&host, "x", &[0]);
    let (open, event, _keep) = gated(&device);
    host.prepare_write(&x, Prepare::wait([event])).unwrap();
    let writer = std::thread::spawn({
        let (host, x) = (host.clone(), x.clone());
        move || host.set_values(&x, &[3.0]).unwrap()
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!writer.is_finished());
    open.send(()).unwrap();
    writer.join().unwrap();
    assert_eq!(host.get_values(&x).unwrap(), [3.0]);
}

#[test]
fn a_failed_writer_is_the_readers_error_until_the_host_writes() {
    let (device, host) = (multicore(), Host::default());
    let y = resident(&host, "y", &[1]);
    let bad = code("bad", &[(&y, Access::Write)], &[], |_, _| panic!("no luck"));
    let routine = context(&device).with_host(&host).link(&bad, from_ref(&y)).unwrap();
    drop(routine.run(&[]).unwrap());
    for _ in 0..2 {
        let error = host.get_values(&y).unwrap_err();
        assert_eq!(error.failure().unwrap().message(), "no luck");
    }
    host.insert(&y, array(&[9])).unwrap();
    assert_eq!(host.get_values(&y).unwrap(), [9.0]);
}

#[test]
fn modes_say_who_may_write() {
    let (device, host) = (multicore(), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let reason = || Reason::new("the test says so");
    y.update_memory_mode(MemoryMode::Hosted(Hosted::Volatile), reason()).unwrap();
    let context = context(&device).with_host(&host);
    let error = double(&context, &x, &y).unwrap_err();
    assert!(matches!(&error, Error::HostedWrite { node, .. } if node == "y"), "{error}");
    assert_eq!(device.memory().live_bytes, 0);
    x.update_memory_mode(MemoryMode::Hosted(Hosted::Constant), reason()).unwrap();
    host.set_values(&x, &[4.0]).unwrap();
    let z = resident(&host, "z", &[0]);
    let routine = double(&context, &x, &z).unwrap();
    assert!(matches!(host.set_values(&x, &[5.0]), Err(Error::HostConstant { .. })));
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.get_values(&z).unwrap(), [8.0]);
    let local = node("local", 1);
    local.update_memory_mode(MemoryMode::Local, reason()).unwrap();
    assert!(matches!(host.insert(&local, array(&[1])), Err(Error::Node(_))));
    assert!(matches!(host.get(&local), Err(Error::NotHosted { .. })));
}

#[test]
fn constants_are_read_where_they_are() {
    let device = multicore();
    let host = Host::new(HostOptions { use_host_memory: true, ..HostOptions::default() });
    let (x, y) = (resident(&host, "x", &[3]), resident(&host, "y", &[0]));
    x.update_memory_mode(MemoryMode::Hosted(Hosted::Constant), Reason::new("the test says so")).unwrap();
    let routine = double(&context(&device).with_host(&host), &x, &y).unwrap();
    assert_eq!(device.memory().live_bytes, 8, "y alone");
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.get_values(&y).unwrap(), [6.0]);
    assert!(routine.context().explain(&x).contains("the host's array itself"));
    let error = routine.context().from_host(&x, &array(&[4])).unwrap_err();
    assert!(matches!(&error, Error::ReadOnly { node, .. } if node == "x"), "{error}");
    drop((routine, host));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
}

#[test]
fn copies_between_contexts_reach_the_host_as_well() {
    let (device, host) = (multicore(), Host::default());
    let x = resident(&host, "x", &[1]);
    let to = context(&device).with_host(&host).init_from_residence(&x).unwrap();
    let from = context(&device).init_from_host(&x, &array(&[8])).unwrap();
    let _ = to.device_to_device(&x, MergeBufferUse::No, &from).unwrap();
    assert_eq!(host.get_values(&x).unwrap(), [8.0]);
    assert_eq!(host.remove(&x).unwrap().values(), [8.0]);
    assert!(!host.contains(&x));
}

#[test]
fn constants_may_be_read_in_place() {
    for use_host_memory in [true, false] {
        let device = multicore();
        let host = Host::new(HostOptions { use_host_memory, ..HostOptions::default() });
        let (x, y) = (resident(&host, "x", &[3; 1000]), resident(&host, "y", &[0; 1000]));
        let constant = MemoryMode::Hosted(Hosted::Constant);
        x.update_memory_mode(constant, Reason::new("the test says so")).unwrap();
        let routine = double(&context(&device).with_host(&host), &x, &y).unwrap();
        let expected = if use_host_memory { 8000 } else { 16000 };
        assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (expected, expected));
        drop(routine.run(&[]).unwrap());
        assert_eq!(host.get_value(&y, &[999]).unwrap(), 6.0);
        let other =
            double(&context(&device).with_host(&host), &x, &resident(&host, "z", &[0; 1000])).unwrap();
        assert_eq!(other.context().location(&x), routine.context().location(&x), "a constant is there once");
        let written = routine.context().from_host(&x, &array(&[1; 1000]));
        assert_eq!(matches!(written, Err(Error::ReadOnly { .. })), use_host_memory);
        host.remove(&x);
        drop(routine.run(&[]).unwrap());
        routine.context().stream().sync().unwrap();
    }
}
