//! Data-parallel rounds on a device with failing tasks: a result is right or missing, and the streams
//! recover.

use std::sync::Arc;

use arrayjit::{Backend, BackendParts, Device, RunError, Settings, parallel::MergeMethod};
use codegen_core::interpreted::Interpreted;
use device_runtime::{FaultDevice, FaultPlan};
use scheduler_multicore::{Cpu, CpuConfig};

use super::rounds::{RoundProgram, by_hand};

/// Three streams and two passes over the rows.
const STREAMS: usize = 3;

fn faulty(seed: u64) -> (Arc<FaultDevice>, Backend) {
    let plan = FaultPlan::new(seed).task_failures(0.01).late_completions(0.3);
    let driver = Arc::new(FaultDevice::new(Arc::new(Cpu::multicore(CpuConfig::default())), plan));
    driver.set_active(false);
    let device = Device::new(driver.clone(), 0);
    let parts = BackendParts::new(Arc::new(Interpreted::new()), device);
    (driver, Backend::from_parts("faulty", parts, &Settings::default()).unwrap())
}

#[test]
fn under_faults_a_result_is_right_or_missing() {
    let (mut right, mut missing) = (0, 0);
    for seed in 0..60 {
        let by = if seed % 2 == 0 { MergeMethod::Copy } else { MergeMethod::Streaming };
        let (driver, backend) = faulty(seed);
        let program = RoundProgram::new();
        let steps = program.link(&backend, STREAMS, 1, by);
        let is_injected = |error: RunError| {
            let failure = error.failure().unwrap_or_else(|| panic!("seed {seed}: {error}")).clone();
            assert!(driver.failures().contains(&failure), "seed {seed}: {failure} was not injected");
        };

        driver.set_active(true);
        let run = (0..2).try_for_each(|_| steps.run(steps.all_bindings()));
        let is_whole = run.map_err(is_injected).is_ok();
        for context in steps.contexts() {
            match context.to_host(&program.p) {
                Ok(p) if is_whole => {
                    assert_eq!(p.values(), by_hand(STREAMS, 2).0, "seed {seed}");
                    right += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    is_injected(error);
                    missing += 1;
                }
            }
        }

        // After the reset no failure remains, and all operations succeed.
        driver.set_active(false);
        steps.contexts().iter().for_each(|context| context.stream().reset().unwrap());
        program.begin(&steps);
        steps.run(steps.all_bindings()).unwrap();
        for context in steps.contexts() {
            assert_eq!(context.to_host(&program.p).unwrap().values(), by_hand(STREAMS, 1).0, "seed {seed}");
        }
    }
    assert!(right > 20 && missing > 20, "{right} right, {missing} missing: too few of one kind");
}
