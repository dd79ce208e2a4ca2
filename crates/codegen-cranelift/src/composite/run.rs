//! Runs composite kernels. Contains unsafe code: it calls compiled code and GEMM plans.
//!
//! Invariants it relies on and keeps:
//!
//! * Every part is a kernel of its own, made by [`super::divide`]. Its memory parameters are those of the
//!   composite, followed by the shared nodes; its symbols are those of the composite, followed by the symbols
//!   of loops. All other guarantees of the composite's caller hold for the part as well.
//! * The shared nodes are in the composite's scratch memory, one after the other; the scratch memory of the
//!   parts follows.
#![allow(unsafe_code, reason = "compiled code and contractions are called here")]

use std::sync::Arc;

use codegen_core::host::{NativeCode, NativeKernel};
use lowered_ir::ir::{Bound, Var};
use microkernels::GemmPlan;
use tnode::{DType, Scalar};

/// Maximum number of arguments, and of bindings, of a part. Both are on the stack during a call.
pub(crate) const MAX_PARAMETERS: usize = 128;

/// A kernel that runs as a sequence of steps.
pub(crate) struct CompositeKernel {
    /// The steps, in order.
    pub(crate) steps: Vec<CompositeStep>,
    /// The functions that steps call, once they are loaded.
    pub(crate) parts: Vec<NativeCode>,
    /// The number of the composite's memory parameters.
    pub(crate) args: usize,
    /// The number of the composite's symbols.
    pub(crate) symbols: usize,
    /// The offset of each shared node in scratch memory.
    pub(crate) shared: Vec<usize>,
    /// The offset of the parts' scratch memory.
    pub(crate) scratch: usize,
}

pub(crate) enum CompositeStep {
    /// Runs steps for each value of a binding below `end`, which follows from the bindings around the loop. A
    /// parallel loop runs those of these values that are in the call's range. A condition, the number and the
    /// type of a node of one element, ends the loop before an iteration when it is 0.
    Loop {
        binding: usize,
        end: Bound,
        condition: Option<(usize, DType)>,
        is_parallel: bool,
        steps: Vec<CompositeStep>,
    },
    /// Runs a GEMM plan. If the plan is divided, one iteration of the call's range is `unit` positions of the
    /// plan's parallel axis.
    Contraction { plan: Arc<GemmPlan>, unit: Option<u64> },
    /// Calls compiled code, by its index.
    Part(usize),
}

impl CompositeKernel {
    /// The GEMM plans of all steps.
    pub(crate) fn plans(&self) -> Vec<&GemmPlan> {
        let mut plans = Vec::new();
        self.steps.iter().for_each(|step| step.collect_plans(&mut plans));
        plans
    }
}

impl CompositeStep {
    fn collect_plans<'s>(&'s self, plans: &mut Vec<&'s GemmPlan>) {
        match self {
            CompositeStep::Loop { steps, .. } => steps.iter().for_each(|step| step.collect_plans(plans)),
            CompositeStep::Contraction { plan, .. } => plans.push(plan),
            CompositeStep::Part(_) => {}
        }
    }
}

/// The arguments of one call.
struct Call {
    args: [*mut u8; MAX_PARAMETERS],
    bindings: [i64; MAX_PARAMETERS],
    scratch: *mut u8,
    range: (u64, u64),
}

impl NativeKernel for CompositeKernel {
    unsafe fn run(&self, args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64) {
        let mut call = Call {
            args: [std::ptr::null_mut(); MAX_PARAMETERS],
            bindings: [0; MAX_PARAMETERS],
            scratch: scratch.wrapping_add(self.scratch),
            range: (begin, end),
        };
        // SAFETY: the caller passes one address per memory parameter and one value per symbol;
        // `MAX_PARAMETERS` is at least as large, and the arrays do not overlap. Without parameters or
        // symbols, the pointers may be dangling and nothing is read.
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
        // SAFETY: the arguments are valid for every part, by the invariants of this module.
        unsafe { call.run(&self.steps, &self.parts) }
    }
}

impl Call {
    /// The value of a symbol. Bounds mention symbols alone.
    fn value(&self, var: Var) -> i64 {
        match var {
            Var::Symbol(symbol) => self.bindings[symbol.index()],
            Var::Loop(_) => 0,
        }
    }

    /// Whether the first element of a node is 0.
    ///
    /// # Safety
    ///
    /// The argument of this number is the address of a node with an element of this type.
    unsafe fn is_zero(&self, node: usize, dtype: DType) -> bool {
        // SAFETY: the caller's promise. No other thread writes the node while the kernel runs.
        let bytes = unsafe { std::slice::from_raw_parts(self.args[node], dtype.size_bytes()) };
        Scalar::read(dtype, bytes).is_some_and(|value| !value.as_bool())
    }

    /// Runs steps in order.
    ///
    /// # Safety
    ///
    /// The arguments, bindings and scratch memory are those that each of the steps requires.
    unsafe fn run(&mut self, steps: &[CompositeStep], parts: &[NativeCode]) {
        for step in steps {
            match step {
                CompositeStep::Loop { binding, end, condition, is_parallel, steps } => {
                    let last = end.eval(|var| self.value(var)).max(0) as u64;
                    let (begin, end) =
                        if *is_parallel { (self.range.0, self.range.1.min(last)) } else { (0, last) };
                    for at in begin..end {
                        // SAFETY: the node is one of the kernel's own, and has an element.
                        if condition.is_some_and(|(node, dtype)| unsafe { self.is_zero(node, dtype) }) {
                            break;
                        }
                        self.bindings[*binding] = at as i64;
                        // SAFETY: the caller's promise; the binding is within its range.
                        unsafe { self.run(steps, parts) }
                    }
                }
                CompositeStep::Contraction { plan, unit } => {
                    let (begin, end) = match unit {
                        Some(unit) => (self.range.0 * unit, self.range.1 * unit),
                        None => (0, 1),
                    };
                    // SAFETY: the caller's promise; a divided plan is its kernel's only step, so the range is
                    // within the plan's extent.
                    unsafe {
                        plan.run(self.args.as_ptr(), self.bindings.as_ptr(), self.scratch, begin, end);
                    }
                }
                // SAFETY: the caller's promise; the part runs its whole range.
                CompositeStep::Part(at) => unsafe {
                    parts[*at].run(self.args.as_ptr(), self.bindings.as_ptr(), self.scratch, 0, 1);
                },
            }
        }
    }
}
