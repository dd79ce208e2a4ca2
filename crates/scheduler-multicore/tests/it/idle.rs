//! Idle workers sleep. The test has a process of its own, since it measures the threads of the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{slice::from_ref, sync::Arc, thread, time::Duration};

use codegen_core::{Access, Launch};
use codegen_testkit::in_own_process;
use device_runtime::Device;
use scheduler_multicore::{Cpu, CpuConfig};

use crate::support::*;

unsafe extern "C" fn nothing(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {}

#[test]
fn idle_workers_use_no_processor() {
    if !in_own_process("idle::idle_workers_use_no_processor") {
        return;
    }
    let device = Device::new(Arc::new(Cpu::multicore(CpuConfig { threads: 3, ..CpuConfig::default() })), 0);
    let x = node("x", 1);
    let launch = Launch { extent: 100, grain: 1, threads: 1, end: None };
    let code = native("nothing", &[(&x, Access::Write)], launch, 0, nothing);
    context(&device).link(&code, from_ref(&x)).unwrap().run(&[]).unwrap().sync().unwrap();
    let streams: Vec<_> = (0..8).map(|_| device.new_stream().unwrap()).collect();
    streams.iter().for_each(|stream| stream.sync().unwrap());
    thread::sleep(Duration::from_millis(5));
    let before = worker_ticks();
    assert_eq!(
        before.len(),
        8 + 2,
        "queue workers have their streams' names, pool workers names of their own"
    );
    thread::sleep(Duration::from_millis(300));
    // A tick is 10 ms. Ten threads that spin for 300 ms on two processors would have used about 2 × 30 ticks.
    assert!(worker_ticks().iter().sum::<u64>() - before.iter().sum::<u64>() <= 3);
}

/// Processor time of each worker thread of this process, in ticks.
fn worker_ticks() -> Vec<u64> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = threads.flatten().filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let ours = |stat: &String| stat.contains("(multicore:") || stat.contains("(arrayjit-worker");
    stats.filter(ours).map(|stat| ticks(&stat).unwrap()).collect()
}

/// The sum of fields 14 and 15 of a thread's `stat`: user and system time.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}
