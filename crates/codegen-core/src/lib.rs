#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod caps;

pub mod attention;
pub mod canonical;
pub mod dependence;
pub mod matrices;

pub mod form;
pub mod kernel;
pub mod scheduled;
pub mod threads;

pub mod emit;
mod rejection; // kernels that need what a target lacks

mod choice;
pub mod contract; // the traits of a codegen
mod method;

pub mod abi;
pub mod artifact;
pub mod code;
pub mod host;
mod log;
pub mod log_buffer;
mod panic;
mod plan_slot;
mod ptx;
mod shader;

pub mod interpreted;

// The loop IR that a codegen reads, so that its crate can depend on this one alone.
pub use lowered_ir::log::{LogLine, LogStyle};
pub use lowered_ir::{eval, interp, ir, math, text};
pub use tnode::{DType, Dims, Scalar};

pub use artifact::{Access, Artifact, Cost, KernelAbi, Launch, LaunchEnd, Param, Payload};
pub use caps::{BASE_ALIGNMENT, Caps, CapsError, DTypeSet, Transcendental, Workgroups, has_approximation};
pub use choice::KernelChoice;
pub use code::{Code, CodeError, CodeMismatch};
pub use contract::{
    Codegen, CodegenError, Compiler, Listing, Pipeline, RenderedKernel, Renderer, fingerprint,
};
pub use form::{FormError, check_form};
pub use interpreted::Interpreted;
pub use kernel::{Kernel, KernelError};
pub use log::{LogSink, Logging};
pub use method::CompilationMethod;
pub use panic::panic_message;
pub use ptx::{PtxLaunch, PtxModule, TensorMap, TileSwizzle};
pub use rejection::{Checked, Rejection, reject};
pub use scheduled::{
    Binding, KernelCall, RoutineError, RoutineParts, RoutineProblem, ScheduledRoutine, Slot, Temp, TempId,
};
pub use shader::{Shader, ShaderModule};

tnode::debug_as_display!(
    CapsError,
    CodeError,
    CodegenError,
    FormError,
    KernelError,
    RoutineError,
    RoutineProblem,
);
