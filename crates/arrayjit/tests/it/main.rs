//! The integration tests as one program, since each program costs a link. Tests that measure or change their
//! process run in one of their own (`codegen_testkit::in_own_process`).

#[cfg(feature = "cranelift")]
mod allocations;
mod backend_registry;
#[cfg(feature = "cranelift")]
mod bad_input;
mod bad_programs;
mod batch;
mod bits_of_values;
mod capsules;
#[cfg(feature = "cranelift")]
mod compile_time;
#[cfg(feature = "cranelift")]
mod convolution_gradients;
mod corpus;
mod devices;
mod differential;
mod documented_programs;
mod dumps;
mod embedding;
mod empty_nodes;
mod error_messages;
#[cfg(feature = "cranelift")]
mod fallback;
#[cfg(unix)]
mod foreign_environment;
#[cfg(feature = "cranelift")]
mod gradient_goldens;
#[cfg(feature = "cranelift")]
mod gradients;
mod host_arrays;
mod hostile_numbers;
mod inferred_nodes;
mod kept_nodes;
mod logs;
#[cfg(feature = "cranelift")]
mod many_programs;
mod margins;
mod numeric_settings;
mod parallel;
#[cfg(feature = "cranelift")]
mod prelude;
#[cfg(feature = "cranelift")]
mod profiles;
mod random;
#[cfg(feature = "cranelift")]
mod random_programs;
mod re_exports;
mod repeated_texts;
mod slices;
mod small_stacks;
mod symbols;
mod temporaries;
mod threads;
mod trace;
mod trace_setting;
mod training_memory;
#[cfg(feature = "cranelift")]
mod tuning;
mod untrusted_codegen;
mod virtual_nodes;
mod warnings;
mod worked_programs;
mod written_parts;
