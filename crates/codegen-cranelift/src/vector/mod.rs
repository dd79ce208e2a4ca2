//! From a kernel's loop IR to a [`vector_asm::VectorProgram`]: loops of constant bounds around straight-line vector code.
//!
//! Serial loops stay loops, unrolled ones are written out, the lanes of vector loops become lanes of values. What lanes share has one
//! lane. Locals in registers are values as long as control flow is straight, and variables where loops carry them. Where an operation
//! stands (hoisted, shared, forwarded from a store) is [`build`]'s business. What a program cannot say is a [`Reason`], and
//! the kernel is then compiled like any other.
//!
//! The program computes what the kernel says, bit for bit: nothing is reordered that rounds.

mod build;
mod convert;
mod epilogue;
mod expr;
mod locals;
mod memory;
mod ops;
mod reason;
mod repr;
mod stmt;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use codegen_core::Kernel;
use lowered_ir::ir::{Expr, LocalId, Locals, LoopId, Routine};
use vector_asm::{Value, VectorCode, VectorProgram};

use crate::caps::{ALIGNMENT, last_cache_bytes};
use crate::options::VectorWidth;
use build::Builder;
pub(crate) use epilogue::epilogue;
use locals::Home;
pub(crate) use reason::Reason;
use stmt::Position;

/// A kernel as a program.
pub(crate) struct Translated {
    pub(crate) program: VectorProgram,
    /// Bytes of scratch memory it uses.
    pub(crate) scratch_bytes: usize,
}

/// A kernel as machine code.
pub(crate) struct Assembled {
    pub(crate) program: VectorProgram,
    pub(crate) code: VectorCode,
    /// Bytes of scratch memory it uses.
    pub(crate) scratch_bytes: usize,
}

/// Translates a kernel that [`crate::support`] accepts, and assembles it.
///
/// # Errors
///
/// What a program cannot say, or the assembler not compile.
pub(crate) fn assemble(kernel: &Kernel, width: VectorWidth) -> Result<Assembled, Reason> {
    let isa = width.isa().ok_or(Reason::Off)?;
    let Translated { program, scratch_bytes } = translate(kernel, target())?;
    let code = vector_asm::compile(&program, isa)?;
    Ok(Assembled { program, code, scratch_bytes })
}

/// This machine.
pub(crate) fn target() -> Target {
    Target { alignment: ALIGNMENT, cache_bytes: last_cache_bytes() }
}

/// What the translation has to know of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Alignment of scratch memory.
    pub(crate) alignment: usize,
    /// Bytes of the last data cache.
    pub(crate) cache_bytes: usize,
}

/// Translates a kernel that [`crate::support`] accepts.
///
/// # Errors
///
/// What a program cannot say.
pub(crate) fn translate(kernel: &Kernel, target: Target) -> Result<Translated, Reason> {
    let mut translator = Translator::new(kernel, target)?;
    translator.kernel()?;
    let (_, scratch_bytes) = memory::scratch_layout(&kernel.ir().body, target.alignment);
    Ok(Translated { program: translator.build.finish(), scratch_bytes })
}

/// The state of translating one kernel.
struct Translator<'k> {
    build: Builder,
    routine: &'k Routine,
    locals: Locals,
    /// Register locals with a vector loop along their last dimension.
    walked: BTreeSet<LocalId>,
    /// For each node, whether its stores may go past the caches.
    streamed: Vec<bool>,
    /// Where each local lies that is not in registers.
    scratch: BTreeMap<LocalId, i64>,
    /// Loop variables in scope.
    vars: HashMap<LoopId, Position>,
    /// Their least and greatest values.
    ranges: HashMap<LoopId, (i64, i64)>,
    /// Locals in scope.
    homes: BTreeMap<LocalId, Home>,
    /// The mask that a truth value as a number was made of.
    stored_masks: HashMap<Value, Value>,
    /// How many values are alive while an expression is computed.
    needs: HashMap<*const Expr, u32>,
    /// The vector loop whose lanes are being computed together, and how many.
    lane: Option<(LoopId, u32)>,
}

impl<'k> Translator<'k> {
    fn new(kernel: &'k Kernel, target: Target) -> Result<Self, Reason> {
        let routine = kernel.ir();
        let (scratch, _) = memory::scratch_layout(&routine.body, target.alignment);
        Ok(Translator {
            build: Builder::new(stmt::stored(&routine.body)),
            routine,
            locals: routine.locals(),
            walked: locals::walked(&routine.body)?,
            streamed: memory::streamed(kernel, target.cache_bytes),
            scratch,
            vars: HashMap::new(),
            ranges: HashMap::new(),
            homes: BTreeMap::new(),
            stored_masks: HashMap::new(),
            needs: HashMap::new(),
            lane: None,
        })
    }
}
