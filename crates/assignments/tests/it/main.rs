//! The integration tests that may share a process. They are one program, because linking each program takes
//! time.

mod accumulations;
mod convolution;
mod einsum_errors;
mod error_table;
mod listing;
mod loop_bounds;
mod lost_values;
mod lowering;
mod lowering_total;
mod margins;
#[allow(dead_code, reason = "the tests of assignment text use more of it")]
mod program;
mod recurrences;
mod window;
