//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod allocations;
mod caller_runs;
mod context_memory;
mod counting_allocator;
mod deadlocks;
mod dependencies;
mod growth;
mod host;
#[cfg(target_os = "linux")]
mod idle;
mod multicore;
#[cfg(target_os = "linux")]
mod out_of_memory;
#[cfg(all(target_os = "linux", not(miri)))]
mod pages;
mod peers;
mod sequences;
mod suite;
mod support;
mod timeline;
