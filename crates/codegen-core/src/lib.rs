#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod caps; // capabilities of a target

pub mod canonical; // contractions that codegens compile whole
pub mod dependence; // accesses, independent iterations
pub mod matrices; // contractions that are matmuls

pub mod form; // the form of kernels for workgroups
pub mod kernel; // IR with its ABI
pub mod scheduled; // kernels and their calls
pub mod threads; // questions of code generators for threads

pub mod emit; // parts that emitters share
mod rejection; // kernels that need what a target lacks

mod choice; // choices between forms of code with the same bits
pub mod contract; // the traits of a codegen
mod method; // how a kernel is compiled, for reports

pub mod abi; // the contract of compiled kernels, in words
pub mod artifact; // compiled kernels
pub mod code; // a scheduled routine with its artifact
pub mod host; // calls of kernels in this process
mod log; // from records to text
pub mod log_buffer; // records of kernels that call no functions
mod panic; // payloads of panics
mod plan_slot; // a codegen's plan with its kernel
mod ptx; // kernels in PTX
mod shader; // kernels in a shading language

pub mod interpreted; // the interpreter as a codegen

// The loop IR that a codegen reads, so that its crate can depend on this one alone.
pub use lowered_ir::log::{LogLine, LogStyle};
pub use lowered_ir::{eval, interp, ir, math, text};
pub use tnode::{DType, Dims, Scalar};

pub use artifact::{Access, Artifact, Cost, KernelAbi, Launch, Param, Payload};
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
    KernelCall, RoutineError, RoutineParts, RoutineProblem, ScheduledRoutine, Slot, Temp, TempId,
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
