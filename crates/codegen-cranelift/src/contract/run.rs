//! Running a kernel of parts. One of the modules of the crate with unsafe code: it calls compiled code and contractions.
//!
//! Invariants it relies on and keeps:
//!
//! * Every part is a kernel of its own, made by [`super::parts`], with the memory and symbols of the whole first, in the same order, then
//!   the shared nodes and the symbols of loops. So its contract is the whole's, but for these.
//! * Shared nodes lie in the whole's scratch memory, one after the other, and what parts need for themselves behind them.
#![allow(unsafe_code, reason = "compiled code and contractions are called here")]

use codegen_core::host::{NativeCode, NativeKernel};
use microkernels::GemmPlan;

/// The most arguments, and the most bindings, that a part may have: they are laid out on the stack.
pub(crate) const MOST: usize = 64;

/// A kernel made of parts.
pub(crate) struct Composite {
    /// What runs, in order.
    pub(crate) steps: Vec<Step>,
    /// The code that steps call, once it is loaded.
    pub(crate) parts: Vec<NativeCode>,
    /// Memory parameters of the whole.
    pub(crate) args: usize,
    /// Symbols of the whole.
    pub(crate) symbols: usize,
    /// Where each shared node lies in scratch memory.
    pub(crate) shared: Vec<usize>,
    /// Where the scratch memory of parts begins.
    pub(crate) scratch: usize,
}

/// One thing that runs.
pub(crate) enum Step {
    /// Steps for each value of a binding: of the call's range, if the loop is the parallel one.
    Loop { binding: usize, extent: u64, is_parallel: bool, steps: Vec<Step> },
    /// A contraction; the call's range counts so many of what its split counts, if it is split.
    Contraction { plan: Box<GemmPlan>, unit: Option<u64> },
    /// Compiled code, by its position.
    Part(usize),
}

impl Composite {
    /// Bytes of memory for the code that the plans of contractions have loaded.
    pub(crate) fn plan_bytes(&self) -> usize {
        self.steps.iter().map(Step::plan_bytes).sum()
    }
}

impl Step {
    fn plan_bytes(&self) -> usize {
        match self {
            Step::Loop { steps, .. } => steps.iter().map(Step::plan_bytes).sum(),
            Step::Contraction { plan, .. } => plan.code_bytes(),
            Step::Part(_) => 0,
        }
    }
}

/// The arguments of one call.
struct Call {
    args: [*mut u8; MOST],
    bindings: [i64; MOST],
    scratch: *mut u8,
    range: (u64, u64),
}

impl NativeKernel for Composite {
    unsafe fn run(&self, args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64) {
        let mut call = Call {
            args: [std::ptr::null_mut(); MOST],
            bindings: [0; MOST],
            scratch: scratch.wrapping_add(self.scratch),
            range: (begin, end),
        };
        // SAFETY: the caller passes one address per memory parameter and one value per symbol; `MOST` is no less, and the
        // arrays are different objects. With none of them the pointers may be anything, and nothing is read.
        unsafe {
            if self.args > 0 {
                std::ptr::copy_nonoverlapping(args, call.args.as_mut_ptr(), self.args);
            }
            if self.symbols > 0 {
                std::ptr::copy_nonoverlapping(bindings, call.bindings.as_mut_ptr(), self.symbols);
            }
        }
        for (at, &offset) in self.shared.iter().enumerate() {
            call.args[self.args + at] = scratch.wrapping_add(offset);
        }
        // SAFETY: the arguments are those of every part, by the invariants of this module.
        unsafe { call.run(&self.steps, &self.parts) }
    }
}

impl Call {
    /// Runs steps in order.
    ///
    /// # Safety
    ///
    /// The call's arguments, bindings and scratch memory are what each of the steps asks for.
    unsafe fn run(&mut self, steps: &[Step], parts: &[NativeCode]) {
        for step in steps {
            match step {
                Step::Loop { binding, extent, is_parallel, steps } => {
                    let (begin, end) = if *is_parallel { self.range } else { (0, *extent) };
                    for at in begin..end {
                        self.bindings[*binding] = at as i64;
                        // SAFETY: as this function's caller says; the binding is within its range.
                        unsafe { self.run(steps, parts) }
                    }
                }
                Step::Contraction { plan, unit } => {
                    let (begin, end) = match unit {
                        Some(unit) => (self.range.0 * unit, self.range.1 * unit),
                        None => (0, 1),
                    };
                    // SAFETY: as this function's caller says; a contraction that is split is all that its kernel is, so the range is within its extent.
                    unsafe {
                        plan.run(self.args.as_ptr(), self.bindings.as_ptr(), self.scratch, begin, end);
                    }
                }
                // SAFETY: as this function's caller says; the part runs whole.
                Step::Part(at) => unsafe {
                    parts[*at].run(self.args.as_ptr(), self.bindings.as_ptr(), self.scratch, 0, 1);
                },
            }
        }
    }
}
