//! Compile time as a function of program size: every family of `filetests::generate::families`, at several
//! sizes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing step fails the test; the long check prints a table"
)]

mod chains; // long chains of nodes are several kernels
mod stages; // the stages of a compilation, separately
mod times; // seconds, on request

use arrayjit::{Backend, Settings};

/// Opens a backend without compiled code and without a cache.
fn backend() -> Backend {
    let mut settings = Settings::default();
    settings.threads = 2;
    settings.code_cache_bytes = 0;
    Backend::open_with("inline", &settings).unwrap()
}
