//! The runtime's test suite on both schedulers, without faults and with faults that must not change results:
//! slow copies, and events that complete late and in other orders.

use std::sync::Arc;

use codegen_testkit::runtime::Setup;
use device_runtime::{Driver, FaultDevice, FaultPlan};
use scheduler_multicore::{Cpu, CpuConfig};

fn config(setup: &Setup) -> CpuConfig {
    let Setup { threads, queue_capacity, memory_limit } = *setup;
    CpuConfig { threads, queue_capacity, memory_limit }
}

fn multicore(setup: &Setup) -> Arc<dyn Driver> {
    Arc::new(Cpu::multicore(config(setup)))
}

fn inline(setup: &Setup) -> Arc<dyn Driver> {
    Arc::new(Cpu::inline(config(setup)))
}

/// A driver with faults that change timing and order, but not results.
fn disturbed(driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
    let plan = FaultPlan::new(5).slow_copies(0.2).late_completions(0.5).rejected_peers(0.3);
    Arc::new(FaultDevice::new(driver, plan))
}

codegen_testkit::runtime_suite! {
    on_multicore: multicore;
    on_inline: inline;
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    on_multicore_disturbed: |setup: &Setup| disturbed(multicore(setup));
    #[ignore = "long: `cargo xtask ci --full` runs it"]
    on_inline_disturbed: |setup: &Setup| disturbed(inline(setup));
}
