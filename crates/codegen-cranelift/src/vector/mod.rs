//! Translates a kernel's loop IR to a [`VectorProgram`]: loops with constant bounds around straight-line
//! vector code.
//!
//! Serial loops stay loops, unrolled loops are replicated, and the lanes of vector loops become lanes of
//! values. A value that is the same in all lanes has one lane. Locals in registers are values within
//! straight-line code, and variables if loops carry them. [`build`] decides where an operation is placed
//! (hoisting, sharing, store-to-load forwarding). If the program cannot represent the kernel, translation
//! ends with a [`BailoutReason`], and Cranelift compiles the kernel.
//!
//! The program computes the same bits as the kernel: no operation that rounds is reordered.

mod build;
mod convert;
mod epilogue;
mod expr;
mod locals;
mod memory;
mod ops;
mod program_width; // the instruction set of a program
mod reason;
mod repr;
mod stmt;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use codegen_core::Kernel;
use codegen_core::emit::{LinearValue, ScratchLayout};
use lowered_ir::ir::{Expr, LocalId, Locals, LoopId, LoweredRoutine};
use vector_asm::{Index, Value, VectorCode, VectorProgram};

use crate::caps::{ALIGNMENT, last_cache_bytes};
use crate::options::VectorWidth;
use build::ProgramBuilder;
pub(crate) use epilogue::epilogue;
use locals::LocalStorage;
use program_width::{mixed, narrowed};
pub(crate) use reason::{BailoutReason, Result};

/// A kernel as a vector program.
pub(crate) struct Translated {
    pub(crate) program: VectorProgram,
    pub(crate) scratch_bytes: usize,
}

/// A kernel as a vector program and its machine code.
pub(crate) struct Assembled {
    pub(crate) program: VectorProgram,
    pub(crate) code: VectorCode,
    pub(crate) scratch_bytes: usize,
}

/// Whether any store of the kernel bypasses the caches of the target, if it becomes a vector program.
pub(crate) fn streams(kernel: &Kernel, target: Target) -> bool {
    memory::streamed(kernel, target.cache_bytes).contains(&true)
}

/// Translates and compiles a kernel that [`crate::support`] accepts.
///
/// # Errors
///
/// The reason why the program cannot represent the kernel, or why it does not compile.
pub(crate) fn assemble(kernel: &Kernel, width: VectorWidth, target: Target) -> Result<Assembled> {
    let isa = width.isa().ok_or(BailoutReason::Off)?;
    let Translated { program, scratch_bytes } = translate(kernel, target)?;
    let isa = match width {
        VectorWidth::Mixed => mixed(&program, kernel.abi().launch.extent),
        _ => narrowed(isa, &program),
    };
    let code = vector_asm::compile(&program, isa)?;
    Ok(Assembled { program, code, scratch_bytes })
}

/// The properties of this CPU.
pub(crate) fn target() -> Target {
    Target { alignment: ALIGNMENT, cache_bytes: last_cache_bytes() }
}

/// The properties of a CPU that the translation depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Alignment of scratch memory in bytes.
    pub(crate) alignment: usize,
    /// Bytes of the last-level data cache.
    pub(crate) cache_bytes: usize,
}

/// Translates a kernel that [`crate::support`] accepts.
///
/// # Errors
///
/// The reason why the program cannot represent the kernel.
pub(crate) fn translate(kernel: &Kernel, target: Target) -> Result<Translated> {
    let mut translator = Translator::new(kernel, target)?;
    translator.kernel()?;
    Ok(Translated { program: translator.build.finish(), scratch_bytes: translator.scratch.bytes })
}

/// The state of translating one kernel.
struct Translator<'k> {
    build: ProgramBuilder,
    routine: &'k LoweredRoutine,
    locals: Locals,
    /// Register locals that a vector loop indexes along their last dimension.
    walked: BTreeSet<LocalId>,
    /// Whether the stores of each node may bypass the caches.
    streamed: Vec<bool>,
    scratch: ScratchLayout,
    /// Loop variables in scope: multiples of a counter plus a constant, plus the lane in a vector loop.
    vars: HashMap<LoopId, LinearValue<Index>>,
    /// The least and the greatest values of the loop variables in scope.
    ranges: HashMap<LoopId, (i64, i64)>,
    /// Locals in scope.
    homes: BTreeMap<LocalId, LocalStorage>,
    /// For each value of numbers 0 and 1 that was converted from a mask, that mask.
    stored_masks: HashMap<Value, Value>,
    /// Register needs of expressions: the number of values that are live during their computation.
    needs: HashMap<*const Expr, u32>,
    /// The vector loop whose lanes are computed together, and their number.
    lane: Option<(LoopId, u32)>,
}

impl<'k> Translator<'k> {
    fn new(kernel: &'k Kernel, target: Target) -> Result<Self> {
        let routine = kernel.ir();
        Ok(Translator {
            build: ProgramBuilder::new(stmt::stored(&routine.body)),
            routine,
            locals: routine.locals(),
            walked: locals::walked(&routine.body)?,
            streamed: memory::streamed(kernel, target.cache_bytes),
            scratch: ScratchLayout::new(&routine.body, target.alignment),
            vars: HashMap::new(),
            ranges: HashMap::new(),
            homes: BTreeMap::new(),
            stored_masks: HashMap::new(),
            needs: HashMap::new(),
            lane: None,
        })
    }
}
