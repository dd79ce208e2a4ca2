//! The integration tests that may share a process, as one program, since each program costs a link.

mod caller_runs;
mod deadlocks;
mod dependencies;
mod host;
mod multicore;
mod peers;
mod suite;
mod support;
