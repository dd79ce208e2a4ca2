//! Host arrays: reads and writes that wait for the device, and arrays that the device reads in place.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(clippy::result_large_err, reason = "the runtime's errors are large, and tests keep none")]

use crate::support;

use std::{
    slice::from_ref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use codegen_core::{Access, host::HostArg};
use device_runtime::{Device, Event, Host, HostOptions, LinkedRoutine, Prepare, RunError};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;
use tnode::{HostArray, Hosted, MemoryMode, Reason};

fn multicore() -> Device {
    device(Cpu::multicore(CpuConfig::default()))
}

/// Runs a routine that waits for a message. Returns the sender of the message, the event of the run, and the
/// routine, which keeps its stream alive.
fn gated(device: &Device) -> (mpsc::Sender<()>, Event, LinkedRoutine) {
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
            Ok::<HostArray, RunError>(array(&[value]))
        }
    };
    let prepared = Prepare::transfer(one.clone(), fetch(1));
    assert!(!prepared.is_done());
    host.prepare_read(&x, prepared).unwrap();
    host.prepare_read(&x, Prepare::transfer(other.clone(), fetch(2))).unwrap();
    let reader = std::thread::spawn({
        let (host, x) = (host.clone(), x.clone());
        move || host.values(&x).unwrap()
    });
    second.send(()).unwrap();
    other.sync().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!reader.is_finished(), "the first event is waited for too");
    first.send(()).unwrap();
    assert_eq!(reader.join().unwrap(), [2.0]);
    assert_eq!(count.load(Ordering::Relaxed), 1, "only the newest was transferred");
    assert_eq!(host.values(&x).unwrap(), [2.0]);
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
    assert_eq!(host.values(&x).unwrap(), [3.0]);
}

#[test]
fn constants_are_read_where_they_are() {
    let device = multicore();
    let host = Host::new(HostOptions { use_host_memory: true, ..HostOptions::default() });
    let (x, y) = (resident(&host, "x", &[3]), resident(&host, "y", &[0]));
    x.update_memory_mode(MemoryMode::Hosted(Hosted::Constant), Reason::new("the test says so")).unwrap();
    let routine = double(&host.attach(&context(&device)), &x, &y).unwrap();
    assert_eq!(device.memory().live_bytes, 8, "y alone");
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.values(&y).unwrap(), [6.0]);
    assert!(routine.context().explain(&x).contains("the host's array itself"));
    let error = routine.context().from_host(&x, array(&[4])).unwrap_err();
    assert!(matches!(&error, RunError::ReadOnly { node, .. } if node == "x"), "{error}");
    drop((routine, host));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
}

/// Devices whose memory is the host's take arrays over: nothing is copied, and routines write the memory.
#[test]
fn arrays_that_are_given_away_become_memory_of_the_device() {
    let device = multicore();
    let (x, y) = (node("x", 4), node("y", 4));
    let given = array(&[1, 2, 3, 4]);
    let address = given.bytes().as_ptr().addr();
    let context = context(&device).init_from_host(&x, given).unwrap();
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (32, 32));
    let addresses = |args: &mut [HostArg<'_>], _: &[i64]| {
        let at = read(&args[0]).as_ptr().addr();
        write(&mut args[1]).fill(at as i64);
    };
    let look = code("look", &[(&x, Access::Read), (&y, Access::Write)], &[], addresses);
    let look = context.link(&look, &[x.clone(), y.clone()]).unwrap();
    drop(look.run(&[]).unwrap());
    assert_eq!(values(look.context(), &y), [address as i64; 4], "the kernel reads the array itself");

    let add = code("add", &[(&x, Access::ReadWrite)], &[], |args, _| {
        write(&mut args[0]).iter_mut().for_each(|value| *value += 10);
    });
    let add = context.link(&add, from_ref(&x)).unwrap();
    drop(add.run(&[]).unwrap());
    assert_eq!(values(&context, &x), [11, 12, 13, 14]);
    let _ = context.from_host(&x, array(&[5, 6, 7, 8])).unwrap();
    assert_eq!(values(&context, &x), [5, 6, 7, 8]);
    drop((context, look, add));
    assert_eq!((device.memory().live_bytes, device.driver().used_memory()), (0, 0));
}

/// An array with other owners is copied instead of taken over, and an array that exceeds the limits of the
/// device is an error.
#[test]
fn arrays_are_copied_where_the_device_may_not_take_them() {
    let (device, x) = (multicore(), node("x", 4));
    let kept = Arc::new(array(&[1, 2, 3, 4]));
    let shared = context(&device).init_from_host(&x, Arc::clone(&kept)).unwrap();
    let add = code("add", &[(&x, Access::ReadWrite)], &[], |args, _| write(&mut args[0]).fill(9));
    drop(shared.link(&add, from_ref(&x)).unwrap().run(&[]).unwrap());
    assert_eq!(values(&shared, &x), [9; 4]);
    assert_eq!(*kept, array(&[1, 2, 3, 4]), "the array that others have keeps its values");

    let small = Device::with_pool_cap(Arc::new(Cpu::multicore(CpuConfig::default())), 0, 16);
    let error = context(&small).init_from_host(&x, array(&[1, 2, 3, 4])).unwrap_err();
    assert!(matches!(error, RunError::NodeTooLarge { .. }), "{error}");
}

#[test]
fn hosted_outputs_have_host_arrays_and_others_have_none() {
    let (device, host) = (multicore(), Host::default());
    let (x, y, z) = (resident(&host, "x", &[3]), node("y", 1), node("z", 1));
    y.update_memory_mode(MemoryMode::Hosted(Hosted::Unset), Reason::new("the test says so")).unwrap();
    z.update_memory_mode(MemoryMode::Materialized, Reason::new("the test says so")).unwrap();
    let root = host.attach(&context(&device));
    let routine = double(&root, &x, &y).unwrap();
    assert_eq!(host.values(&y).unwrap(), [0.0], "nothing ran");
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.values(&y).unwrap(), [6.0]);
    host.set_values(&y, &[5.0]).unwrap();
    let next = double(routine.context(), &y, &z).unwrap();
    drop(next.run(&[]).unwrap());
    assert_eq!(values(next.context(), &z), [10]);
    assert!(matches!(host.get(&z), Err(RunError::NotHosted { .. })));
}

/// A device that may use the host's memory asks whether a node needs memory of its own. The answer settles
/// the memory mode of the node.
#[test]
fn links_settle_where_nodes_without_host_array_live() {
    let settled = |use_host_memory| {
        let (device, host) =
            (multicore(), Host::new(HostOptions { use_host_memory, ..HostOptions::default() }));
        let (x, y) = (resident(&host, "x", &[3]), node("y", 1));
        y.update_memory_mode(MemoryMode::Materialized, Reason::new("the test says so")).unwrap();
        double(&host.attach(&context(&device)), &x, &y).unwrap();
        y.mode().chain().iter().any(|decision| decision.reason.text() == "a link gives it memory")
    };
    assert!(settled(true));
    assert!(!settled(false));
}
