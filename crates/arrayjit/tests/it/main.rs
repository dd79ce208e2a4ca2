//! The integration tests that may share a process, as one program, since each program costs a link.

#[cfg(feature = "cranelift")]
mod bad_input;
mod bad_programs;
mod batch;
mod bits_of_values;
#[cfg(feature = "cranelift")]
mod convolution_gradients;
mod corpus;
mod devices;
mod differential;
mod documented_programs;
mod embedding;
mod empty_nodes;
#[cfg(feature = "cranelift")]
mod gradient_goldens;
#[cfg(feature = "cranelift")]
mod gradients;
mod host_arrays;
mod hostile_numbers;
mod inferred_nodes;
mod kept_nodes;
mod margins;
mod numeric_settings;
#[cfg(feature = "cranelift")]
mod prelude;
#[cfg(feature = "cranelift")]
mod profiles;
mod random;
mod re_exports;
mod repeated_texts;
mod slices;
mod small_stacks;
mod symbols;
mod threads;
mod training_memory;
#[cfg(feature = "cranelift")]
mod tuning;
mod untrusted_codegen;
mod virtual_nodes;
mod worked_programs;
mod written_parts;
