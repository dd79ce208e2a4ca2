//! The integration tests. They are one program, because linking each program takes time.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod accesses;
mod compiled;
mod custom_gradient;
mod detach;
mod errors;
mod expansion;
mod forms;
mod goldens;
mod listings;
mod networks;
mod random_programs;
mod recompute;
mod reductions;
mod rules;
mod seams;
mod second_derivatives;
mod support;
mod versions;
mod windows;
