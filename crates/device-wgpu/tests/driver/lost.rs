//! A lost device: unfinished tasks fail, nothing hangs, and no outdated value is returned.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{slice::from_ref, sync::Arc, thread, time::Duration};

use crate::support::*;
use codegen_core::Access;
use device_runtime::{Driver, DriverError, PoolId, RunError};
use device_wgpu::WgpuConfig;

fn is_lost(error: &RunError) -> bool {
    match error {
        RunError::Driver { source: DriverError::Lost { .. }, .. } => true,
        other => other.failure().is_some_and(|failure| failure.message().contains("is lost")),
    }
}

#[test]
fn everything_fails_after_the_loss_and_nothing_hangs() {
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    let device = device(&driver);
    let (x, y) = (node("x", 1000), node("y", 1000));
    let context = context(&device).init_from_host(&x, array(&[1; 1000])).unwrap();
    let uses = [(&x, Access::ReadWrite), (&y, Access::Write)];
    let body = "for (var i = 0u; i < 1000u; i++) { w0(t, r0(t) * 3u + 1u); } w1(t, r0(t));";
    let code = code("work", &uses, &[], 1000, body);
    let routine = context.link(&code, &[x.clone(), y.clone()]).unwrap();
    let before = routine.run(&[]).unwrap();
    before.sync().unwrap();
    for _ in 0..100 {
        drop(routine.run(&[]).unwrap());
    }
    let pending = routine.run(&[]).unwrap();
    let other = device.new_stream().unwrap();
    let waiter = thread::spawn({
        let pending = pending.clone();
        move || pending.sync()
    });
    thread::sleep(Duration::from_millis(2));
    driver.destroy();

    before.sync().unwrap();
    let waited = waiter.join().unwrap();
    assert!(waited.as_ref().map_or_else(is_lost, |()| true), "{waited:?}");
    let synced = pending.sync();
    assert_eq!(synced.is_ok(), waited.is_ok());
    assert!(pending.is_done());
    for error in [
        routine.run(&[]).unwrap_err(),
        routine.context().to_host(&x).unwrap_err(),
        context.from_host(&x, array(&[2; 1000])).unwrap_err(),
        context.init_from_host(&node("z", 1), array(&[2])).unwrap_err(),
        routine.context().stream().sync().unwrap_err(),
        other.all_work().unwrap_err(),
        device.new_stream().unwrap_err(),
        context.stream().reset().unwrap_err(),
        context.link(&code, &[x.clone(), node("y2", 1000)]).unwrap_err(),
    ] {
        assert!(is_lost(&error), "{error}");
    }
    assert!(context.stream().debug_info().contains("device lost: it was destroyed"));
    drop((routine, context, other));
    assert_eq!(driver.used_memory(), 0, "the runtime keeps no memory, and no task is pending");
    assert!(Arc::strong_count(driver.driver()) >= 1);

    // The loss does not affect another device of the process.
    let fresh = open(&WgpuConfig::default()).unwrap();
    fresh.alloc_pool(PoolId(1), 4).unwrap();
    assert!(fresh.new_stream("wgpu:0:0").is_ok());
}

#[test]
fn readers_on_other_streams_get_the_error() {
    let Some(driver) = open(&WgpuConfig::default()) else { return };
    let device = device(&driver);
    let x = node("x", 4);
    let first = context(&device).init_from_host(&x, array(&[1; 4])).unwrap();
    let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], 4, "w0(t, r0(t) + 1u);");
    let routine = first.link(&code, from_ref(&x)).unwrap();
    (0..20).for_each(|_| drop(routine.run(&[]).unwrap()));
    driver.destroy();
    let error = second.to_host(&x).unwrap_err();
    assert!(is_lost(&error), "{error}");
}
