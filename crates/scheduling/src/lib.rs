//! The scheduler: from an optimised routine to kernels, in the operations that a target has.
//!
//! [`schedule_traced`] is the list of steps; each file beside this one is one step or one question that steps ask. The text
//! form shows the routine after each step, and the interpreter runs it.
//!
//! # Should I be using this crate?
//!
//! To put optimised routines into a code generator's hands: yes, call [`schedule()`] with the generator's capabilities. To write
//! a code generator, `codegen-core` is enough. To compute something, use `arrayjit`.
//!
//! # Example
//!
//! ```
//! use codegen_core::Interpreted;
//! use scheduling::{ScheduleOptions, schedule};
//!
//! let routine = lowered_ir::text::parse(
//!     "routine @double strict {
//!        node %0 \"x\" f32[4] on_device
//!        node %1 \"y\" f32[4] on_device
//!        for i0 in 0..4 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let scheduled = schedule(&routine, &Interpreted::new(), &ScheduleOptions::default())?;
//! assert_eq!(scheduled.kernels().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * [`schedule()`] determines every bit: the interpreter of a scheduled routine and its compiled code agree, whatever the width
//!   of vectors and the number of threads. `strict` routines keep the bits they had before.
//! * Kernels are verified, and made of the operations that the target's [`Caps`] list.
//!
//! # Numerics
//!
//! One step, `numerics`, decides every bit; those after it keep them. On targets with workgroups it leaves the order of reductions to the
//! step `grid`, which shares them out. What each numeric class promises:
//!
#![doc = include_str!("numerics.md")]
#![forbid(unsafe_code)]

// Steps.
mod cpu;
mod cut;
mod gpu;
pub mod legalise; // down to the operations and types a target has
mod locals;
mod normalize;
mod numerics;
mod starts;
mod temps;

// What steps use.
mod analysis;
mod free_list; // offsets in the order of lifetimes
mod fuse; // neighbouring loops as one, on GPUs; how many statements one has
mod jam; // strips of a loop inside its body
mod stack; // small local nodes as scratch memory

use lowered_ir::ir::{NodeDecl, NodeRef, Numerics, Routine};
use tnode::{DType, MemoryMode};

use crate::analysis::names::Names;
use crate::analysis::uses::Whole;
use codegen_core::kernel::KernelError;
use codegen_core::scheduled::{RoutineError, RoutineParts, ScheduledRoutine};
use codegen_core::{Caps, Codegen, CodegenError, Transcendental};

pub use crate::legalise::{LegaliseError, legalise};

tnode::debug_as_display!(LegaliseError, ScheduleError);

/// What the scheduler may decide; the defaults suit a machine with caches and few cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleOptions {
    /// Whether loops may be split over threads.
    pub parallel: bool,
    /// Whether loops may become vectors.
    pub vectorize: bool,
    /// The least work, in flops plus elements touched, for which a thread is worth waking.
    pub grain_work: u64,
    /// The most bytes of local nodes that move into one kernel's scratch memory.
    pub stack_bytes: usize,
    /// Which products are fused with the sums they are part of.
    pub fma: FmaPolicy,
}

/// When `a * b + c` of floats becomes `fma(a, b, c)`, with one rounding instead of two. An fma that a program writes out is one
/// under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FmaPolicy {
    /// Never.
    Never,
    /// In the class `Fast`, not in `Strict`.
    #[default]
    ByClass,
    /// In both classes.
    Always,
}

impl FmaPolicy {
    /// Whether products of a routine of this class are fused.
    pub fn contracts(self, class: Numerics) -> bool {
        match self {
            FmaPolicy::Never => false,
            FmaPolicy::ByClass => class == Numerics::Fast,
            FmaPolicy::Always => true,
        }
    }
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        ScheduleOptions {
            parallel: true,
            vectorize: true,
            // Some 20 µs of vector code: waking a thread takes about as long.
            grain_work: 1 << 20,
            stack_bytes: tnode::DEFAULT_STACK_THRESHOLD_BYTES,
            fma: FmaPolicy::ByClass,
        }
    }
}

/// Why a routine could not be scheduled.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A node without memory is still read or written: the optimiser has not inlined it.
    #[error(
        "routine `{routine}`: node {node} \"{name}\" is virtual, expected every mention of it to be inlined"
    )]
    Virtual {
        /// The routine's name.
        routine: String,
        /// Which node.
        node: NodeRef,
        /// Its name.
        name: String,
    },
    /// The target cannot do what the routine asks for.
    #[error(transparent)]
    Illegal(#[from] LegaliseError),
    /// A kernel contradicts its ABI, or the verifier rejects it: the routine was not verified, or a step has a bug.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The codegen failed to say which contractions it compiles whole: a bug.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// Calls contradict kernels: a bug.
    #[error(transparent)]
    Routine(#[from] RoutineError),
}

/// The names of all steps of [`schedule_traced`] and [`schedule_serial`]; which of them run depends on the target.
pub const STEPS: &[&str] = &[
    "spill",
    "locals",
    "normalize",
    "numerics",
    "starts",
    "fuse",
    "forward",
    "vectorize",
    "strips",
    "shrink",
    "grid",
    "parallelize",
    "legalise",
];

/// Schedules an optimised, verified routine for a target: see [`schedule_traced`], without the trace.
///
/// # Errors
///
/// [`ScheduleError`].
pub fn schedule(
    routine: &Routine,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
) -> Result<ScheduledRoutine, ScheduleError> {
    schedule_traced(routine, codegen, options, &mut |_, _| {})
}

/// Schedules an optimised, verified routine for a target; `on_pass` sees the routine after each step, under the step's name.
///
/// # Errors
///
/// [`ScheduleError::Virtual`] where a virtual node was not inlined, [`ScheduleError::Illegal`] where the target lacks an
/// operation or a type.
pub fn schedule_traced(
    routine: &Routine,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
    on_pass: &mut dyn FnMut(&str, &Routine),
) -> Result<ScheduledRoutine, ScheduleError> {
    let caps = codegen.caps();
    // Only nodes with memory are left.
    refuse_virtual(routine)?;
    let mut routine = routine.clone();

    // Nests of a GPU are kernels of their own, so what they share is memory.
    if caps.workgroups.is_some() {
        gpu::plain(&mut routine);
        gpu::spill(&mut routine);
        on_pass("spill", &routine);
    }
    // What the routine does with its nodes is plain while nothing is tiled.
    let whole = Whole::of(&routine);

    // What is read of a local node is written, or zeroed, before: its memory may hold anything when a run begins.
    normalize::remove_empty_zeros(&mut routine);
    locals::initialize(&mut routine, &whole);
    on_pass("locals", &routine);

    // Loops with constant bounds start at 0 and have several iterations.
    normalize::normalize(&mut routine.body);
    on_pass("normalize", &routine);

    // From here on the order written determines every bit, and no step changes one but for the reductions of a GPU.
    numerics::make_explicit(&mut routine, options.fma, caps);
    on_pass("numerics", &routine);

    // What was just filled with a constant is not read back.
    starts::propagate(&mut routine);
    on_pass("starts", &routine);

    // Loops that share data run in step, and values are handed on instead of stored and read back.
    if caps.workgroups.is_none() {
        cpu::fuse(&mut routine, caps);
        on_pass("fuse", &routine);
        cpu::forward(&mut routine);
        normalize::normalize(&mut routine.body);
        on_pass("forward", &routine);
    }

    // The contiguous axis of each nest is innermost and cut into vectors; contractions are register tiles, or stay whole for targets that
    // have kernels for them; what runs across memory is tiled, or streams past accumulators; long rows go in pairs.
    if options.vectorize && caps.vector_bytes > 0 && caps.workgroups.is_none() {
        let mut names = Names::of(&routine);
        routine.body = cpu::vectorize(routine.body, caps, &mut names);
        normalize::normalize(&mut routine.body);
        on_pass("vectorize", &routine);
    }

    // Strips of vectors run in step as well, and so do the lanes in them. What then is used up makes room for others, and what lives for
    // one iteration takes the room of one.
    if caps.workgroups.is_none() {
        cpu::fuse(&mut routine, caps);
        cpu::forward(&mut routine);
        normalize::normalize(&mut routine.body);
        on_pass("strips", &routine);
        cpu::reuse(&mut routine);
        cpu::shrink(&mut routine, caps);
        on_pass("shrink", &routine);
    }

    // The partial results of a long loop are a node, so that the loop can be a kernel of its own.
    if options.parallel && caps.threads > 1 && caps.workgroups.is_none() {
        cpu::spill(&mut routine, options);
        cpu::forward(&mut routine);
        on_pass("spill", &routine);
    }

    // On a GPU nests share kernels where enough is left to do at once, and independent iterations are threads and workgroups.
    if let Some(workgroups) = caps.workgroups {
        gpu::join(&mut routine, workgroups);
        on_pass("fuse", &routine);
        gpu::distribute(&mut routine, workgroups, caps.contractions);
        on_pass("grid", &routine);
    }

    // Outermost loops that are worth it may be split over threads.
    if options.parallel && caps.threads > 1 && caps.workgroups.is_none() {
        cpu::parallelize(&mut routine, options);
        on_pass("parallelize", &routine);
    }

    // Only operations that the target has are left; what replaces others stands in the same loops, vectors included.
    if !has_everything(caps) {
        routine = legalise(&routine, caps)?;
        on_pass("legalise", &routine);
    }

    in_kernels(routine, &whole, codegen, options, cut::STATEMENTS)
}

/// The least that makes kernels of an optimised, verified routine: local nodes get their zeros, operations that the target lacks
/// are rewritten, and that is one kernel. Nothing is reordered, so routines that log are scheduled like this, and every class of
/// routine gives the bits of class `Strict`; on a GPU one thread does it all. `on_pass` as in [`schedule_traced`].
///
/// # Errors
///
/// As [`schedule_traced`].
pub fn schedule_serial(
    routine: &Routine,
    codegen: &dyn Codegen,
    on_pass: &mut dyn FnMut(&str, &Routine),
) -> Result<ScheduledRoutine, ScheduleError> {
    let caps = codegen.caps();
    refuse_virtual(routine)?;
    let mut routine = routine.clone();
    if caps.workgroups.is_some() {
        gpu::plain(&mut routine);
    }
    let whole = Whole::of(&routine);
    normalize::remove_empty_zeros(&mut routine);
    locals::initialize(&mut routine, &whole);
    on_pass("locals", &routine);
    if !has_everything(caps) {
        routine = legalise(&routine, caps)?;
        on_pass("legalise", &routine);
    }
    let options = ScheduleOptions { stack_bytes: 0, ..ScheduleOptions::default() };
    in_kernels(routine, &whole, codegen, &options, usize::MAX)
}

/// Cuts a routine into kernels, and verifies each: compiled code relies on that. A run of serial statements is one kernel, or several of
/// about `limit` statements.
fn in_kernels(
    routine: Routine,
    whole: &Whole,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
    limit: usize,
) -> Result<ScheduledRoutine, ScheduleError> {
    let caps = codegen.caps();
    // Each top-level parallel loop is a kernel by itself; a call waits for those before it.
    let (kernels, mut calls) = cut::cut(&routine, whole, caps, options, limit)?;

    // Contractions that the codegen does not compile whole are register tiles.
    let kernels = cpu::tile_rejected(kernels, codegen)?;

    // Local nodes are bytes of the run's pool, shared where lives do not meet.
    let nodes = routine.nodes;
    let temps = temps::plan(&mut calls, &nodes, |node| is_local(&nodes[node.index()]), caps.alignment);
    let overwritten = whole.overwritten().filter(|node| !is_local(&nodes[node.index()])).collect();
    let (name, symbols) = (routine.name, routine.symbols);
    let parts = RoutineParts { name, symbols, nodes, kernels, calls, temps, overwritten };
    Ok(ScheduledRoutine::new(parts)?)
}

/// Whether a target has nothing to legalise: an interpreter.
fn has_everything(caps: &Caps) -> bool {
    caps.transcendental == Transcendental::Native
        && DType::ALL.into_iter().all(|d| caps.storage.contains(d) && caps.arithmetic.contains(d))
}

/// Whether a node lives for one run only.
fn is_local(node: &NodeDecl) -> bool {
    node.mode.mode() == Some(MemoryMode::Local)
}

fn refuse_virtual(routine: &Routine) -> Result<(), ScheduleError> {
    let mentioned = codegen_core::access::nodes(&routine.body);
    match mentioned.into_iter().find(|&node| routine.node(node).mode.known_virtual()) {
        Some(node) => Err(ScheduleError::Virtual {
            routine: routine.name.clone(),
            node,
            name: routine.node(node).name.clone(),
        }),
        None => Ok(()),
    }
}
