//! The runtime's test suite for drivers with their own kernel language: order, events, hazards, memory,
//! copies.
//!
//! A scenario is a function that takes a [`Gpu`] and panics if its driver, or the runtime above it, breaks a
//! promise. Kernels are described as [`StoreKernel`]s, which the driver's tests translate to its language.
//! [`gpu_suite!`](crate::gpu_suite) makes a test of each scenario.
#![allow(clippy::unwrap_used, reason = "a scenario is a test: it may panic")]

use std::sync::Arc;

use codegen_core::Artifact;
use device_runtime::{Device, Driver};

mod bytes;
mod direct;
pub mod hand_made;
mod kernels;
mod memory;
mod order;
mod programs;

pub use bytes::*;
pub use direct::*;
pub use kernels::{Store, StoreKernel, Word};
pub use memory::*;
pub use order::*;
pub use programs::*;

/// The parts of the suite that a driver's tests provide.
pub trait Gpu {
    /// A device of its own with at most this much memory; prints a line and returns `None` on machines
    /// without one.
    fn open(&self, memory_limit: Option<usize>) -> Option<(Arc<dyn Driver>, Device)>;

    /// A device for scenarios that do not measure its memory. It may be shared, if opening one takes long.
    fn device(&self) -> Option<Device> {
        self.open(None).map(|(_, device)| device)
    }

    /// Translates kernels to the device's language.
    fn artifact(&self, kernels: &[StoreKernel]) -> Artifact;
}

/// Makes a test of each scenario. Each test calls `$run` with a closure that runs the scenario.
#[macro_export]
macro_rules! gpu_suite {
    ($run:expr) => {
        $crate::gpu_suite! { @tests $run,
            a_kernel_adds_two_nodes
            tasks_of_a_stream_run_in_order_with_their_own_bindings
            many_threads_wait_for_one_event
            dropping_everything_runs_what_is_pending
            several_devices_of_one_processor_share_nothing
            temporaries_carry_values_between_kernels
            a_fresh_output_is_zero_where_nothing_wrote
            what_the_first_task_overwrites_is_not_zeroed
            padding_comes_back
            values_of_every_type_and_length_come_back
            memory_returns_to_zero_when_tasks_are_done
            a_failed_link_leaves_nothing_allocated
            any_bytes_go_anywhere
            waits_order_streams_without_waiting
            polling_events_makes_progress
            memory_that_pending_tasks_use_is_waited_for
            random_programs_equal_the_sequential_model
        }
    };
    (@tests $run:expr, $($test:ident)*) => {
        $(#[test] fn $test() { ($run)($crate::gpu_runtime::$test) })*
    };
}
