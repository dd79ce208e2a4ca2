#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod parallel; // work divided over streams
pub mod prelude; // the types of most programs
pub mod settings; // choices that need no change of a program
pub mod tune; // a search for faster code with the same bits

mod error; // why opening a backend or compiling failed
mod parts; // a code generator and its devices, to make a backend of
mod target; // a code generator and its devices, with a name and host arrays

mod cache; // compiled code by content
mod code_folder; // compiled code that outlives the process
mod generate; // scheduling and code generation for one target

mod fallback; // statements that a code generator rejects
mod routine; // the linked callable

mod observer; // the places at which compilations can be observed

mod backend; // targets with what is known of compiled routines
mod batch; // several routines at once
mod compile; // all stages in order
mod compiled; // code that links into contexts
mod loaded; // whole programs, with their nodes by name
mod run_sizes; // arrays of the host and sizes that a run gives
mod text_cache; // compiled texts

mod observe; // reports, dumps, logs, profiles, capsules, timelines
mod open; // backends by name, settings or parts

#[cfg(feature = "cuda")]
mod ptx_text; // PTX without a GPU

tnode::debug_as_display!(
    CompileError,
    Error,
    ErrorKind,
    OpenError,
    capsule::CapsuleError,
    parallel::ParallelError,
    settings::SettingsError,
    trace::TraceError,
    tune::TuneError,
);

pub use assignment_text::{
    self as text, // programs as text
    Program,
    TextError,
    parse_nodes,
};
pub use assignments::{
    self as assign, // assignments: data, builders
    Assignments,
    Nodes,
    UnknownNode,
    Warning,
    WarningKind,
    builder::BuildError,
    indexing, // projections and einsum text, for builders
};
pub use autodiff; // gradients, as programs
pub use codegen_core::{Caps, Codegen, LogSink, LogStyle, Logging};
pub use device_runtime::{
    Context, Dependency, Device, Driver, DriverError, Event, Failure, Hazard, Location, MemoryReport,
    MemoryUse, MergeBufferUse, PendingArray, PendingUse, RunError, Stream, StreamId, StreamStrategy, Task,
    Transfer,
};
pub use lowered_ir::{
    SourceSpan,
    ir, // operations, for builders; the loop IR
    ir::{Numerics, Symbol},
    pipeline::OptimizeSettings,
    random, // distributions, for builders
};
pub use tnode::{
    AxisPadding, DType, Decision, Dims, Element, HostArray, Hosted, Label, MemoryMode, ModeConflict,
    ModeState, NodeBuilder, NodeId, Padding, Reason, Registry, RenderOptions, Scalar, Sharing, TensorNode,
    TensorNodeError, View, WeakNode,
};
#[cfg(feature = "files")]
pub use tnode::{
    npy,         // NumPy files: .npy, .npz
    safetensors, // safetensors files
    torch,       // files of `torch.save`
};

pub use crate::{
    backend::Backend,
    batch::{BatchMember, CompiledBatch},
    cache::CodeCacheUse,
    code_folder::CodeFolderUse,
    compiled::Compiled,
    error::{CompileError, Error, ErrorKind, OpenError, message_with_causes},
    fallback::{Fallback, FallbackCount},
    loaded::LoadedProgram,
    observe::{capsule, profile, trace},
    open::{BackendStatus, DeviceListing, LinkedBackend},
    parts::{BackendParts, OpenResult},
    routine::Routine,
    settings::Settings,
};

#[cfg(feature = "cuda")]
pub use crate::ptx_text::{PtxTarget, ptx};

#[doc(hidden)]
pub use inventory; // for `register_backend!`

/// The Rust program of the guide to assignment text, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/assignment-guide.md")]
struct AssignmentGuide;

/// The programs of the guide to several streams, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime.md")]
struct RuntimeGuide;

/// Safe programs cannot alter the inputs of machine code. Each of these programs once read or wrote foreign
/// memory; none compiles.
///
/// The range of a symbol, against which bindings are checked:
///
/// ```compile_fail,E0616
/// # let [x, y] = ["x", "y"].map(|name| arrayjit::TensorNode::builder(name).dims([10]).build().unwrap());
/// # let backend = arrayjit::Backend::open("inline").unwrap();
/// let compiled = backend.compile("y[i] := x[@s + i] where @s < 3", [&x, &y]).unwrap();
/// let mut code = (**compiled.codes().next().unwrap()).clone();
/// code.schedule.symbols[0].range = 1 << 40;
/// ```
///
/// The size of a kernel's scratch memory, in the artifact and behind its accessors:
///
/// ```compile_fail,E0616
/// fn shrink(code: &mut codegen_core::Code) {
///     code.artifact.kernels[0].scratch_bytes = 0;
/// }
/// ```
///
/// ```compile_fail,E0594
/// fn shrink(code: &mut codegen_core::Code) {
///     code.artifact().kernels()[0].scratch_bytes = 0;
/// }
/// ```
///
/// The IR of a kernel, which a codegen may pass to another codegen: it cannot be modified, nor can a kernel
/// be made of unverified IR.
///
/// ```compile_fail,E0596
/// fn alter(kernel: &mut codegen_core::Kernel) {
///     kernel.ir().body.clear();
/// }
/// ```
///
/// ```compile_fail,E0308
/// use codegen_core::{Kernel, KernelAbi, KernelError};
/// fn alter(ir: lowered_ir::ir::LoweredRoutine, abi: KernelAbi) -> Result<Kernel, KernelError> {
///     Kernel::new(ir, abi)
/// }
/// ```
///
/// Native code with an ABI that nobody vouched for:
///
/// ```compile_fail,E0133
/// use codegen_core::{KernelAbi, host::{HostModule, NativeCode}};
/// fn pair(code: NativeCode, abi: KernelAbi) -> HostModule {
///     HostModule::native(vec![(code, abi)], std::sync::Arc::new(()))
/// }
/// ```
#[cfg(doctest)]
struct CompiledCode;
