//! The contract between lowered IR, code generators and devices: capabilities, artifacts, ABI, legalisation, scheduling.
//!
//! This crate owns every type that a code generator hands to a device, so that neither depends on the other.
#![deny(unsafe_code)]

pub mod artifact;
pub mod caps;
pub mod contract;
pub mod host;
pub mod interpreted;
pub mod kernel;
pub mod legalise;
pub mod schedule;

pub use artifact::{Access, Artifact, Cost, KernelAbi, Launch, Param, Payload};
pub use caps::{Caps, DTypeSet};
pub use contract::{Code, Codegen, CodegenError, Compiler, Listing, Renderer};
pub use interpreted::Interpreted;
pub use kernel::{Kernel, KernelCall, ScheduledRoutine, Slot, Temp, TempId};
pub use legalise::{LegaliseError, legalise};
pub use schedule::{ScheduleError, ScheduleOptions, schedule};
