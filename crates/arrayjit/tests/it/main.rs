//! The integration tests as one program, since each program costs a link. Tests that measure or change their
//! process run in one of their own (`codegen_testkit::in_own_process`), and tests that need native code are
//! left out of builds without it.

#[cfg(feature = "cranelift")]
mod allocations;
mod backend_registry;
#[cfg(feature = "cranelift")]
mod bad_input;
#[cfg(feature = "cranelift")]
mod bad_programs;
#[cfg(feature = "cranelift")]
mod batch;
#[cfg(feature = "cranelift")]
mod bits_of_values;
#[cfg(feature = "cranelift")]
mod capsules;
#[cfg(feature = "cranelift")]
mod code_folder;
#[cfg(feature = "cranelift")]
mod compile_time;
#[cfg(feature = "cranelift")]
mod convolution_gradients;
mod corpus;
#[cfg(feature = "cranelift")]
mod devices;
mod differential;
#[cfg(feature = "cranelift")]
mod digests;
#[cfg(feature = "cranelift")]
mod documented_programs;
#[cfg(feature = "cranelift")]
mod dumps;
#[cfg(feature = "cranelift")]
mod dynamic_ends;
#[cfg(feature = "cranelift")]
mod early_ends;
#[cfg(feature = "cranelift")]
mod embedding;
mod empty_nodes;
#[cfg(feature = "cranelift")]
mod error_messages;
#[cfg(feature = "cranelift")]
mod fallback;
#[cfg(unix)]
mod foreign_environment;
mod forked;
#[cfg(feature = "cranelift")]
mod gradient_goldens;
#[cfg(feature = "cranelift")]
mod gradients;
#[cfg(feature = "cranelift")]
mod gradients_of_views;
#[cfg(feature = "cranelift")]
mod host_arrays;
#[cfg(feature = "cranelift")]
mod hostile_numbers;
mod inferred_nodes;
#[cfg(feature = "cranelift")]
mod kept_nodes;
#[cfg(feature = "cranelift")]
mod loaded_programs;
#[cfg(feature = "cranelift")]
mod logs;
#[cfg(feature = "cranelift")]
mod many_programs;
#[cfg(feature = "cranelift")]
mod margins;
#[cfg(feature = "cranelift")]
mod numeric_settings;
#[cfg(feature = "cranelift")]
mod orders;
#[cfg(feature = "cranelift")]
mod parallel;
#[cfg(feature = "cranelift")]
mod prelude;
#[cfg(feature = "cranelift")]
mod profiles;
#[cfg(feature = "cranelift")]
mod random;
#[cfg(feature = "cranelift")]
mod random_programs;
#[cfg(feature = "cranelift")]
mod random_sizes;
#[cfg(feature = "cranelift")]
mod re_exports;
#[cfg(feature = "cranelift")]
mod recurrences;
#[cfg(feature = "cranelift")]
mod repeated_texts;
#[cfg(feature = "cranelift")]
mod run_sizes;
#[cfg(feature = "cranelift")]
mod scan_gradients;
mod scans;
#[cfg(feature = "cranelift")]
mod slices;
mod small_stacks;
mod starved;
#[cfg(feature = "cranelift")]
mod symbols;
mod temporaries;
#[cfg(feature = "cranelift")]
mod threads;
#[cfg(feature = "cranelift")]
mod trace;
#[cfg(feature = "cranelift")]
mod trace_setting;
#[cfg(feature = "cranelift")]
mod training_memory;
#[cfg(feature = "cranelift")]
mod tuning;
#[cfg(feature = "cranelift")]
mod untrusted_codegen;
#[cfg(feature = "cranelift")]
mod virtual_nodes;
mod warnings;
#[cfg(feature = "cranelift")]
mod worked_programs;
#[cfg(feature = "cranelift")]
mod written_parts;
