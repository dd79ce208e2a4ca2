//! Host arrays that are kept coherent with devices: transfers that happen automatically, once, and only when
//! needed.

use std::{slice::from_ref, sync::Barrier, thread};

use codegen_core::Access;
use device_runtime::{Host, HostOptions, MergeBufferUse, Prepare, RunError};
use tnode::{DType, HostArray, Hosted, MemoryMode, Reason, Scalar, TensorNode};

use super::{DriverFactory, Setup, hand_made::*, open};

/// Runs and reads transfer automatically.
pub fn runs_upload_what_lags_and_reads_download_what_is_new(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let (x, y) = (resident(&host, "x", &[1, 2]), resident(&host, "y", &[0, 0]));
    let routine = double(&host.attach(&context(&device)), &x, &y).unwrap();
    assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()], "the link has given x its values");
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.values(&y).unwrap(), [2.0, 4.0]);
    host.set_value(&x, &[1], 50.0).unwrap();
    assert!(
        host.devices_not_lagging_host(&x).is_empty(),
        "whoever writes the host's array makes devices lag"
    );
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.values(&y).unwrap(), [2.0, 100.0]);
    assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()]);
    assert_eq!(host.points_1d(&y, None, 1).unwrap(), [100.0]);
}

/// Transfers happen once.
pub fn what_a_device_has_is_not_uploaded_again(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let routine = double(&host.attach(&context(&device)), &x, &y).unwrap();
    // The device's value is newer than the host's now, and stays.
    let _ = routine.context().from_host(&x, array(&[7])).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!((host.values(&y).unwrap(), host.values(&x).unwrap()), (vec![14.0], vec![7.0]));
}

/// A device finds the values that another device computed.
pub fn devices_see_each_other_through_the_host(make: DriverFactory<'_>) {
    let host = Host::default();
    let devices = [(); 2].map(|()| open(make, &Setup::default()));
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let contexts = devices.each_ref().map(|device| host.attach(&context(device)));
    let there = double(&contexts[0], &x, &y).unwrap();
    let back = double(&contexts[1], &y, &x).unwrap();
    for round in 0..5u32 {
        drop(there.run(&[]).unwrap());
        assert_eq!(host.devices_not_lagging_host(&y), [devices[0].device_id()]);
        drop(back.run(&[]).unwrap());
        assert_eq!(host.value(&x, &[0]).unwrap(), f64::from(4u32.pow(round + 1)));
    }
}

/// A host without automatic transfers leaves them to the user.
pub fn without_automatic_transfers_nothing_moves_by_itself(make: DriverFactory<'_>) {
    let device = open(make, &Setup::default());
    let host = Host::new(HostOptions { automatic_transfers: false, ..HostOptions::default() });
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let context = host.attach(&context(&device));
    assert!(matches!(double(&context, &x, &y), Err(RunError::ContextLacksNode { .. })));
    let routine = double(&host.init(&context, &x).unwrap(), &x, &y).unwrap();
    host.set_values(&x, &[5.0]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [2], "x was not uploaded again");
    assert_eq!(host.values(&y).unwrap(), [0.0], "y was not downloaded");
    assert!(host.upload(routine.context(), &x).unwrap().is_scheduled());
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [10]);
}

/// A read on the host returns the failure of the device.
pub fn a_failed_writer_is_the_readers_error_until_the_host_writes(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let y = resident(&host, "y", &[1]);
    let bad = code("bad", &[(&y, Access::Write)], &[], |_, _| panic!("no luck"));
    let routine = host.attach(&context(&device)).link(&bad, from_ref(&y)).unwrap();
    drop(routine.run(&[]).unwrap());
    for _ in 0..2 {
        let error = host.values(&y).unwrap_err();
        assert_eq!(error.failure().unwrap().message(), "no luck");
    }
    host.insert(&y, array(&[9])).unwrap();
    assert_eq!(host.values(&y).unwrap(), [9.0]);
}

/// Host access to constant nodes, and to nodes without a host array.
pub fn modes_say_who_may_write(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[0]));
    let reason = || Reason::new("the test says so");
    y.update_memory_mode(MemoryMode::Hosted(Hosted::Volatile), reason()).unwrap();
    let context = host.attach(&context(&device));
    let error = double(&context, &x, &y).unwrap_err();
    assert!(matches!(&error, RunError::HostedWrite { node, .. } if node == "y"), "{error}");
    assert_eq!(device.memory().live_bytes, 0);
    x.update_memory_mode(MemoryMode::Hosted(Hosted::Constant), reason()).unwrap();
    host.set_values(&x, &[4.0]).unwrap();
    let z = resident(&host, "z", &[0]);
    let routine = double(&context, &x, &z).unwrap();
    assert!(matches!(host.set_values(&x, &[5.0]), Err(RunError::HostConstant { .. })));
    drop(routine.run(&[]).unwrap());
    assert_eq!(host.values(&z).unwrap(), [8.0]);
    let local = node("local", 1);
    local.update_memory_mode(MemoryMode::Local, reason()).unwrap();
    assert!(matches!(host.insert(&local, array(&[1])), Err(RunError::Node(_))));
    assert!(matches!(host.get(&local), Err(RunError::NotHosted { .. })));
}

/// An array that replaces the array of a node is checked before a device sees it.
pub fn an_array_that_does_not_fit_its_node_is_rejected(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let context = host.attach(&context(&device));
    let y = node("y", 16);
    let other_type = HostArray::from_slice(&[1u8], [1]).unwrap();
    let same_bytes = HostArray::from_slice(&[0f64; 16], [16]).unwrap();
    for (misfit, is_shape) in
        [(array(&[7; 32]), true), (array(&[7]), true), (other_type, true), (same_bytes, false)]
    {
        let x = resident(&host, "x", &[1; 16]);
        let rejected = |error: RunError| match &error {
            RunError::Shape { node, expected, found, .. } => {
                assert_eq!((is_shape, node.as_str()), (true, "x"));
                assert_eq!((expected.as_slice(), found.as_slice()), (&[16][..], misfit.dims().as_slice()));
            }
            RunError::ElementType { node, expected, found, .. } => {
                assert_eq!((is_shape, node.as_str()), (false, "x"));
                assert_eq!((*expected, *found), (DType::I64, misfit.dtype()));
            }
            _ => panic!("{error:?}"),
        };
        // Replaced before a link, before a run, and by a transfer of the user.
        let put = |array: &mut HostArray| {
            *array = misfit.clone();
            Ok(())
        };
        rejected(host.update(&x, put).unwrap_err());
        rejected(host.get(&x).unwrap_err());
        rejected(double(&context, &x, &y).unwrap_err());
        rejected(host.init(&context, &x).unwrap_err());
        assert_eq!(device.memory().live_bytes, 0);
        host.insert(&x, array(&[1; 16])).unwrap();
        let routine = double(&context, &x, &y).unwrap();
        rejected(host.update(&x, put).unwrap_err());
        rejected(routine.run(&[]).unwrap_err());
        rejected(host.upload(routine.context(), &x).unwrap_err());
        host.insert(&x, array(&[2; 16])).unwrap();
        let misfit = misfit.clone();
        let work = context.stream().all_work().unwrap();
        host.prepare_read(&x, Prepare::transfer(work, move || Ok(misfit.clone()))).unwrap();
        rejected(host.get(&x).unwrap_err());
        rejected(routine.run(&[]).unwrap_err());
        host.insert(&x, array(&[3; 16])).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [6; 16]);
    }
}

/// A call that must be rejected.
type Attempt<'a> = &'a dyn Fn() -> Result<(), RunError>;

/// A thread that locks a host array must not wait for one, neither the same nor another.
pub fn changes_of_host_arrays_wait_for_no_host_array(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[2]));
    let here = host.attach(&context(&device));
    let routine = double(&here, &x, &y).unwrap();
    let back = double(routine.context(), &y, &x).unwrap();
    host.set_values(&x, &[1.0]).unwrap();
    let calls: [(&str, Attempt<'_>); 12] = [
        ("get", &|| host.get(&x).map(drop)),
        ("get_value", &|| host.value(&x, &[0]).map(drop)),
        ("set_values", &|| host.set_values(&x, &[7.0])),
        ("update", &|| host.update(&x, |_| Ok(()))),
        ("insert", &|| host.insert(&x, array(&[7]))),
        ("remove", &|| host.remove(&x).map(drop)),
        ("do_read", &|| host.do_read(&x)),
        ("do_write", &|| host.do_write(&x)),
        ("upload", &|| host.upload(routine.context(), &x).map(drop)),
        ("init_from_residence", &|| host.init(&here, &x).map(drop)),
        ("link", &|| double(&host.attach(&context(&device)), &x, &node("z", 1)).map(drop)),
        ("run", &|| routine.run(&[]).map(drop)),
    ];
    let rejected = |error: RunError| {
        assert!(matches!(&error, RunError::HostArrayInUse { node } if node == "x"), "{error}")
    };
    for (name, call) in calls {
        let mut result = Ok(());
        let change = |_: &mut HostArray| {
            result = call();
            Ok(())
        };
        host.update(&x, change).unwrap();
        rejected(result.expect_err(name));
        // The same holds inside a transfer.
        let (at, inside) = (host.clone(), x.clone());
        let work = here.stream().all_work().unwrap();
        let asks = Prepare::transfer(work, move || at.get(&inside).map(|array| (*array).clone()));
        host.prepare_read(&x, asks).unwrap();
        rejected(host.get(&x).unwrap_err());
        host.insert(&x, array(&[1])).unwrap();
    }
    // Operations that need no locked array continue: access to another array, and a run that writes this one.
    host.update(&x, |changed| {
        assert_eq!(host.values(&y).unwrap(), [2.0]);
        assert!(host.devices_not_lagging_host(&x).is_empty());
        changed.fill(Scalar::from_i64(DType::I64, 50));
        drop(back.run(&[]).unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(host.values(&x).unwrap(), [4.0], "the run was later than the change");
    // Two threads lock one array each and request the other's.
    let both = Barrier::new(2);
    let crossing = |mine: &TensorNode, other: &TensorNode| {
        let mut result = None;
        let change = |_: &mut HostArray| {
            both.wait();
            result = Some(host.get(other));
            both.wait();
            Ok(())
        };
        host.update(mine, change).unwrap();
        matches!(result, Some(Err(RunError::HostArrayInUse { .. })))
    };
    let crossed = thread::scope(|scope| {
        let other = scope.spawn(|| crossing(&y, &x));
        (crossing(&x, &y), other.join().unwrap())
    });
    assert_eq!(crossed, (true, true));
}

/// Values that arrive while older ones are being transferred are the current ones afterwards.
pub fn values_that_arrive_during_a_transfer_stay_the_newest(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let (x, y) = (resident(&host, "x", &[1]), resident(&host, "y", &[2]));
    let here = host.attach(&context(&device));
    let routine = double(&here, &y, &x).unwrap();
    let work = here.stream().all_work().unwrap();
    let during = routine.clone();
    let fetch = move || {
        drop(during.run(&[])?);
        Ok(array(&[7]))
    };
    host.prepare_read(&x, Prepare::transfer(work, fetch)).unwrap();
    assert_eq!(host.values(&x).unwrap(), [7.0], "what was asked for");
    assert_eq!(host.values(&x).unwrap(), [4.0], "what a run wrote meanwhile");
}

/// Copies make the host array outdated like runs do.
pub fn copies_between_contexts_reach_the_host_as_well(make: DriverFactory<'_>) {
    let (device, host) = (open(make, &Setup::default()), Host::default());
    let x = resident(&host, "x", &[1]);
    let to = host.init(&context(&device), &x).unwrap();
    let from = context(&device).init_from_host(&x, array(&[8])).unwrap();
    let _ = to.device_to_device(&x, MergeBufferUse::No, &from).unwrap();
    assert_eq!(host.values(&x).unwrap(), [8.0]);
    assert_eq!(host.remove(&x).unwrap().unwrap().values(), [8.0]);
    assert!(!host.contains(&x));
}
