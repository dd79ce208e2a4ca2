//! Profiles: the time, work and memory of each kernel call of a routine, and how its kernel is compiled.
//!
//! With the setting [`profile`](crate::settings::DebugSettings::profile), routines time their kernel calls,
//! and [`Routine::profile`](crate::Routine::profile) returns a [`Profile`]:
//!
//! ```
//! use arrayjit::{Backend, HostArray, Settings, TensorNode};
//!
//! let mut settings = Settings::default();
//! settings.debugging.profile = true;
//! let backend = Backend::open_with("multicore", &settings)?;
//! let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([1000]).build().expect("small"));
//! let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1f32; 1000], [1000])?)?;
//! let routine = backend.compile("y[i] := 2 * x[i] + 1", [&x, &y])?.link(&context)?;
//! for _ in 0..10 {
//!     routine.run(&[])?;
//! }
//! let profile = routine.profile().expect("the setting is on");
//! let call = &profile.calls[0];
//! assert_eq!(call.time.expect("it ran").count, 10);
//! assert_eq!((call.description.cost.flops, call.description.cost.bytes), (2000.0, 8000.0));
//! assert_eq!(call.description.statements[0].user_line, Some(1));
//! assert!(profile.to_table().contains("y[i] := 2 * x[i] + 1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A profile that no program asks for is reported when the routine is dropped: as a table on standard error,
//! or as files in the folder of the setting
//! [`profile_folder`](crate::settings::DebugSettings::profile_folder). A program whose routines are dropped
//! out of its reach collects these profiles
//! ([`Backend::collect_profiles`](crate::Backend::collect_profiles)). `docs/profiling.md` explains the table
//! and the page.
//!
//! The times of kernels come from the device. CPU devices measure each kernel call on the thread that runs
//! it; kernels of one stream do not overlap. NVIDIA GPUs record an event before and after each kernel, which
//! they then launch one by one, not as a graph: the time of a call includes the start of the kernel, some
//! microseconds, and more where the host submits kernels more slowly than the GPU runs them. Other devices do
//! not time kernels: a run is then waited for, and only its whole time is known. Profiling changes neither
//! code nor results. Not recorded are runs that are
//! started as routines of the device ([`Routine::whole`](crate::Routine::whole)) and runs with
//! [capsules](crate::capsule).

mod call; // a kernel call as data
mod describe; // from a schedule to descriptions
mod memory; // the bytes that are alive during each call
mod output; // profiles that nobody asked for
mod page; // a page with charts
#[allow(clippy::module_inception, reason = "the type `Profile`")]
mod profile; // the profile as data
mod recorder; // the times of runs
mod roofline; // the limits of a device
mod source; // the parts that are known at compile time
mod statements; // the statements that a call computes
mod table; // a table for terminals

pub use codegen_core::{CompilationMethod, Cost};
pub use device_runtime::LaunchSize;

pub use self::{
    call::{CallDescription, CallOperand, OperandMemory},
    memory::{MemoryPlan, PlannedMemory},
    profile::{CallInterval, Profile, ProfiledCall, TimeSummary},
    roofline::{Bandwidth, Limit, Roofline, RooflineShare},
    statements::Statement,
};
pub(crate) use self::{
    describe::CallsOf,
    recorder::ProfileRecorder,
    source::{BackendProfiles, ProfileSource},
    statements::Statements,
};
