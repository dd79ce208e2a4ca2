//! Compiles array assignments to machine code in milliseconds and runs them on streams.
//!
//! # Should I be using this crate?
//!
//! To compute with arrays: yes. It combines the layers below it into backends with names, and a backend of
//! your own registers itself with [`register_backend!`]. To write a code generator, use `codegen-core`; to
//! write a device, `device-runtime`; to work on the IR, `lowered-ir`. Their types that a user needs are
//! re-exported here: nodes and host arrays with their files ([`npy`], [`safetensors`]), [`assign`] with
//! parser and builders, contexts, events, [`Host`].
//!
//! # Example
//!
//! ```
//! use arrayjit::{Backend, HostArray, TensorNode};
//!
//! let x = TensorNode::builder("x").dims([2, 3]).build()?;
//! let w = TensorNode::builder("w").dims([3, 2]).build()?;
//! let y = TensorNode::builder("y").dims([2, 2]).build()?;
//!
//! let backend = Backend::open("multicore")?;
//! let code = backend.compile("y[i,h] :+= x[i,k] * w[k,h]", [&x, &w, &y])?;
//! let context = backend
//!     .context()?
//!     .init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6.], [2, 3])?)?
//!     .init_from_host(&w, &HostArray::from_slice(&[1f32, 0., 0., 1., 1., 1.], [3, 2])?)?;
//! let routine = code.link(&context)?;
//! routine.run(&[])?;
//! assert_eq!(routine.context().to_host(&y)?.values(), [4.0, 5.0, 10.0, 11.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The text consists of *assignments* in index notation: `:+=` starts from 0 and sums over the indices that
//! are missing on its left side. `docs/assignment-guide.md` teaches the notation, and
//! `docs/assignment-text.md` has the grammar and all rules.
//!
//! Only nodes with values from outside need a declaration, in Rust or in the text. Other names that the text
//! writes are intermediates, and `keep` makes their values readable ([`Program::keep`], [`Compiled::node`]):
//!
//! ```
//! use arrayjit::{Backend, HostArray, Nodes};
//!
//! let nodes = Nodes::parse("x f32[2, 3]; w1 f32[3, 4]; w2 f32[4, 2]")?;
//! let backend = Backend::open("multicore")?;
//! let code = backend.compile("
//!     h[b,j] :+= x[b,i] * w1[i,j]
//!     a[b,j]  := relu(h[b,j])
//!     y[b,k] :+= a[b,j] * w2[j,k]
//!     keep y", &nodes)?;
//! let ones = |dims: [usize; 2]| HostArray::from_slice(&vec![1f32; dims[0] * dims[1]], dims);
//! let context = backend
//!     .context()?
//!     .init_from_host(nodes.find("x")?, &ones([2, 3])?)?
//!     .init_from_host(nodes.find("w1")?, &ones([3, 4])?)?
//!     .init_from_host(nodes.find("w2")?, &ones([4, 2])?)?;
//! let routine = code.link(&context)?;
//! routine.run(&[])?;
//! assert_eq!(routine.context().to_host(code.node("y")?)?.values(), [12.0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`parallel`] divides work over streams; [`trace`] records a timeline of it.
//!
//! # Promises
//!
//! * No C compiler, no SDK; nothing is written to disk unless a setting or `ARRAYJIT_PERF_MAP` asks for it.
//! * Errors are values that name your nodes; a failed [`Backend::compile`] or [`Compiled::link`] changes
//!   nothing.
//! * `multicore`, `inline` and any number of threads give the same bits. [`settings::NumericClass::Strict`]
//!   gives the bits of the text as written, like the `interpreter`.
//! * Every type is usable from any thread.
//! * Programs that are compiled, run and dropped leave no memory behind but the code cache, which is bounded
//!   ([`settings::CodeCacheSettings::entries`], [`settings::CodeCacheSettings::bytes`]). Code is freed with
//!   the last routine that uses it.
//!
//! # Settings
//!
//! Arguments override environment variables, which override `arrayjit.toml`, which overrides the defaults:
//! see [`settings`].
//!
//! # Features
//!
//! Each adds a backend of this crate; [`Backend::available`] says which can be used here, and why others
//! cannot.
//!
//! * `cranelift` (default): native code for this processor.
//! * `wgpu`: GPUs, through Vulkan, Metal or Direct3D 12.
//! * `cuda`: NVIDIA's GPUs.
#![forbid(unsafe_code)]

pub mod capsule; // files that repeat a run elsewhere
pub mod parallel; // work divided over streams
pub mod profile; // the time, work and memory of kernel calls
pub mod settings; // choices that need no change of a program
pub mod trace; // timelines for trace viewers
pub mod tune; // a search for faster code with the same bits

mod backend; // codegens and devices by name
mod batch; // several routines at once
mod compile; // all stages in order
mod generate; // scheduling and code generation for one target
mod routine; // the linked callable
mod run_memory; // the memory of runs, for reports

mod fallback; // statements that a code generator rejects

mod cache; // compiled code by content
mod debug; // reports on standard error
mod dump; // the filter of dumps, and files for them
mod log;
mod text_cache; // compiled texts // files for the logs of routines

mod error;

tnode::debug_as_display!(
    CompileError,
    InitialiseError,
    OpenError,
    RegisterError,
    capsule::CapsuleError,
    parallel::ParallelError,
    parallel::ShardError,
    settings::SettingsError,
    trace::TraceError,
    tune::TuneError,
);

pub use assignments::{
    self as assign, // assignments: data, text, builders
    Assignments,
    Nodes,
    UnknownNode,
    Warning,
    WarningKind,
    builder::BuildError,
    indexing, // projections and einsum text, for builders
    text::{Program, TextError},
};
pub use autodiff; // gradients, as programs
pub use codegen_core::{Caps, Codegen, LogSink};
pub use device_runtime::{
    Context, Dependency, Device, Driver, DriverError, Event, Failure, Hazard, Host, HostOptions, Location,
    MemoryReport, MemoryUse, MergeBufferUse, PendingUse, Prepare, RunError, Stream, StreamId, StreamStrategy,
    Task, Transfer,
};
pub use lowered_ir::{
    SourceSpan,
    ir, // operations, for builders; the loop IR
    ir::{Numerics, Symbol},
    random, // distributions, for builders
};
pub use tnode::{
    AxisPadding, DType, Decision, Dims, Element, Error as TensorNodeError, HostArray, Hosted, Label,
    MemoryMode, ModeConflict, ModeState, NodeBuilder, NodeId, Padding, Reason, Registry, RenderOptions,
    Scalar, Sharing, TensorNode, View, WeakNode,
};
#[cfg(feature = "files")]
pub use tnode::{
    npy,         // NumPy files: .npy, .npz
    safetensors, // safetensors files
};

pub use crate::{
    backend::{
        Backend, BackendParts, BackendStatus, DeviceListing, LinkedBackend, OpenResult, RegisterError,
    },
    batch::{BatchMember, CompiledBatch},
    compile::Compiled,
    error::{CompileError, InitialiseError, OpenError},
    fallback::{Fallback, FallbackCount},
    routine::Routine,
    settings::Settings,
};

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
/// fn alter(ir: lowered_ir::ir::Routine, abi: KernelAbi) -> Result<Kernel, KernelError> {
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
