//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod caller_runs;
mod deadlocks;
mod dependencies;
mod host;
mod multicore;
mod peers;
mod suite;
mod support;
