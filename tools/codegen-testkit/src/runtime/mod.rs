//! The runtime's test suite for drivers that run host code: order, events, hazards, failures, memory.
//!
//! A scenario is a function that takes a driver factory and panics if the driver, or the runtime above it,
//! breaks a promise. [`runtime_suite!`](crate::runtime_suite) makes a test of each scenario for each driver.
#![allow(clippy::unwrap_used, reason = "a scenario is a test: it may panic")]

use std::sync::Arc;

use device_runtime::{Device, Driver};

mod bad_input; // user errors
mod contexts;
mod failures;
pub mod hand_made;
mod host;
mod hostile;
mod linking;
mod memory;
mod model;
mod order;
mod programs;
mod tasks;
mod threads;

pub use bad_input::*;
pub use contexts::*;
pub use failures::*;
pub use host::*;
pub use hostile::*;
pub use linking::*;
pub use memory::*;
pub use order::*;
pub use programs::random_programs_equal_the_sequential_model;
pub(crate) use programs::{ProgramSteps, mix_uses};
pub use tasks::*;
pub use threads::*;

/// The configuration that a scenario requests; a driver uses the fields that apply to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Threads over which kernels may be split.
    pub threads: usize,
    /// The capacity of a stream's queue, in tasks.
    pub queue_capacity: usize,
    /// The most bytes of all pools together.
    pub memory_limit: Option<usize>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { threads: 2, queue_capacity: 1024, memory_limit: None }
    }
}

/// Makes a driver for a scenario.
pub type DriverFactory<'a> = &'a dyn Fn(&Setup) -> Arc<dyn Driver>;

fn open(make: DriverFactory<'_>, setup: &Setup) -> Device {
    Device::new(make(setup), 0)
}

fn four_threads() -> Setup {
    Setup { threads: 4, ..Setup::default() }
}

/// Makes a module of tests for each driver. The arguments are the name of the module and a function from a
/// [`Setup`] to a driver. The name of the module must differ from the names of the crates that the file
/// imports.
///
/// ```
/// use std::sync::Arc;
///
/// use codegen_testkit::runtime::Setup;
/// use device_runtime::Driver;
/// use scheduler_multicore::{Cpu, CpuConfig};
///
/// fn inline(setup: &Setup) -> Arc<dyn Driver> {
///     Arc::new(Cpu::inline(CpuConfig { memory_limit: setup.memory_limit, ..CpuConfig::default() }))
/// }
///
/// codegen_testkit::runtime_suite! {
///     on_inline: inline;
/// }
/// ```
///
/// Attributes of an entry are those of its tests, such as `#[ignore = "takes minutes"]`.
///
/// [`Setup`]: crate::runtime::Setup
#[macro_export]
macro_rules! runtime_suite {
    ($($(#[$attribute:meta])* $driver:ident: $make:expr;)*) => {
        $(mod $driver {
            #[allow(unused_imports, reason = "for the expression that makes the driver")]
            use super::*;
            $crate::runtime_suite! { @tests [$(#[$attribute])*] $make,
                tasks_of_a_stream_run_in_order
                many_threads_wait_for_one_event
                a_hundred_thousand_tasks_pass_a_small_queue
                threads_that_schedule_at_once_lose_nothing
                sleeping_and_waking_loses_nothing
                a_task_cannot_wait_for_itself
                native_kernels_cover_their_range_once
                a_panic_poisons_what_depends_on_it_and_nothing_else
                a_kernel_that_stops_poisons_what_depends_on_it
                a_failed_stream_says_why_and_healthy_nodes_stay
                dropping_everything_runs_what_is_pending
                memory_returns_to_zero
                a_failed_link_leaves_nothing_allocated
                temporaries_carry_values_between_kernels
                locations_are_the_same_in_every_run
                a_fresh_output_is_zero_where_nothing_wrote
                what_the_first_task_overwrites_is_not_zeroed
                a_read_before_the_first_write_is_an_error_on_request
                unwritten_nodes_read_as_zeros
                a_rejected_task_leaves_memory_unwritten
                a_failed_write_of_unwritten_memory_poisons_it
                linking_names_what_is_missing_or_does_not_fit
                transfers_name_what_does_not_fit
                bindings_are_checked_before_anything_runs
                a_batch_shares_what_its_members_allocate
                padding_comes_back
                device_names_and_suggestions
                what_is_only_read_is_shared
                a_second_writer_of_what_links_share_is_an_error
                what_the_user_shares_any_stream_writes
                what_is_written_is_per_stream
                copies_between_streams_and_devices_deliver_once
                transfers_say_what_there_is_not
                merges_sum_what_other_streams_have
                merge_buffers_grow_and_are_reused
                merges_deliver_from_the_same_memory_too
                devices_merge_from_each_other
                merges_are_checked_when_they_are_linked
                finalized_contexts_hold_nothing
                a_link_to_a_context_without_the_node
                a_stream_of_another_device
                a_merge_by_a_routine_of_another_stream
                a_merge_buffer_that_holds_another_node
                bindings_out_of_range
                a_context_that_was_finalized
                a_node_that_two_streams_write
                a_transfer_of_an_absent_node
                a_node_of_no_elements
                a_request_above_the_pool_cap
                functions_run_in_the_order_of_the_stream
                a_function_that_fails_or_panics_fails_its_stream
                functions_on_nodes_take_turns_with_routines
                a_function_on_nodes_that_fails_poisons_them
                a_function_takes_each_node_once
                a_panic_whose_payload_panics_fails_the_stream_alone
                enscheduled_tasks_run_on_the_stream
                runs_upload_what_lags_and_reads_download_what_is_new
                what_a_device_has_is_not_uploaded_again
                devices_see_each_other_through_the_host
                without_automatic_transfers_nothing_moves_by_itself
                a_failed_writer_is_the_readers_error_until_the_host_writes
                modes_say_who_may_write
                an_array_that_does_not_fit_its_node_is_rejected
                changes_of_host_arrays_wait_for_no_host_array
                values_that_arrive_during_a_transfer_stay_the_newest
                copies_between_contexts_reach_the_host_as_well
                random_programs_equal_the_sequential_model
                random_programs_under_faults_give_the_model_or_the_cause
                a_lost_device_concerns_no_other
            }
        })*
    };
    (@tests $attributes:tt $make:expr, $($test:ident)*) => {
        $($crate::runtime_suite! { @test $attributes $make, $test })*
    };
    (@test [$($attributes:tt)*] $make:expr, $test:ident) => {
        #[test]
        $($attributes)*
        fn $test() { $crate::runtime::$test(&$make) }
    };
}
