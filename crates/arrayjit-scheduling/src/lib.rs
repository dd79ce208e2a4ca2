#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error; // why a routine has no schedule
mod options;
mod pipeline;

pub mod legalize; // operations and types that a target has

mod analysis; // questions that passes ask
mod common;
mod cpu;
mod gpu;

pub use error::ScheduleError;
pub use legalize::{LegalizeError, legalize};
pub use options::ScheduleOptions;
pub use pipeline::{PASS_NAMES, schedule, schedule_serial, schedule_traced};

tnode::debug_as_display!(LegalizeError, ScheduleError);
