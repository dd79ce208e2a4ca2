//! Modules as data, from which another process of the same program makes them again.
//!
//! The data has the machine code of every function with the places where it calls functions of the process,
//! the steps of composites, and their GEMM plans.
#![allow(unsafe_code, reason = "machine code from a file is what this module is for")]

use codegen_core::{Artifact, KernelAbi};
use lowered_ir::ir::{Affine, Bound, SymbolId, Var};
use microkernels::{CpuTarget, GemmPlan, StoredPlan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vector_asm::VectorCode;

use crate::composite::run::{CompositeKernel, CompositeStep};
use crate::jit::{self, Compiled, KernelForm, LoadedFunction, LoadedKernels};
use crate::relocate::{Call, CraneliftCode};

#[derive(Serialize, Deserialize)]
struct StoredModule<'a> {
    #[serde(borrow)]
    functions: Vec<StoredFunction<'a>>,
    #[serde(borrow)]
    kernels: Vec<StoredKernel<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredFunction<'a> {
    bytes: &'a [u8],
    instructions: usize,
    calls: Vec<Call>,
    is_of_cranelift: bool,
}

/// A kernel or part. Functions follow each other in the order of the kernels.
#[derive(Serialize, Deserialize)]
enum StoredKernel<'a> {
    Function,
    Composite {
        #[serde(borrow)]
        steps: Vec<StoredStep<'a>>,
        parts: Vec<StoredKernel<'a>>,
        args: usize,
        symbols: usize,
        shared: Vec<usize>,
        scratch: usize,
    },
}

#[derive(Serialize, Deserialize)]
enum StoredStep<'a> {
    Loop {
        binding: usize,
        end: StoredBound,
        /// The position of the node that ends the loop, and the name of its type.
        condition: Option<(usize, String)>,
        is_parallel: bool,
        #[serde(borrow)]
        steps: Vec<StoredStep<'a>>,
    },
    Contraction {
        plan: Box<StoredPlan<'a>>,
        unit: Option<u64>,
    },
    Part(usize),
}

/// The limit of a bound, and its clips: the offset and the coefficient of each symbol.
type StoredBound = (i64, Vec<(i64, Vec<(u32, i64)>)>);

/// The data of an artifact of this codegen.
pub(crate) fn store(artifact: &Artifact) -> Option<Vec<u8>> {
    let module = artifact.host_module()?;
    let LoadedKernels { loaded, functions, forms } = module.owner().downcast_ref()?;
    let function = |(at, function): (usize, &LoadedFunction)| StoredFunction {
        bytes: loaded.code(at),
        instructions: function.instructions,
        calls: function.calls.clone(),
        is_of_cranelift: function.is_of_cranelift,
    };
    let functions = functions.iter().enumerate().map(function).collect();
    let kernels = forms.iter().map(stored_kernel).collect::<Option<_>>()?;
    postcard::to_extend(&StoredModule { functions, kernels }, Vec::new()).ok()
}

fn stored_kernel(form: &KernelForm) -> Option<StoredKernel<'_>> {
    Some(match form {
        KernelForm::Function => StoredKernel::Function,
        KernelForm::Composite(composite, parts) => StoredKernel::Composite {
            steps: composite.steps.iter().map(stored_step).collect::<Option<_>>()?,
            parts: parts.iter().map(stored_kernel).collect::<Option<_>>()?,
            args: composite.args,
            symbols: composite.symbols,
            shared: composite.shared.clone(),
            scratch: composite.scratch,
        },
    })
}

fn stored_step(step: &CompositeStep) -> Option<StoredStep<'_>> {
    Some(match step {
        CompositeStep::Loop { binding, end, condition, is_parallel, steps } => StoredStep::Loop {
            binding: *binding,
            condition: condition.map(|(node, dtype)| (node, dtype.to_string())),
            end: (end.limit, end.clips().iter().map(stored_clip).collect::<Option<_>>()?),
            is_parallel: *is_parallel,
            steps: steps.iter().map(stored_step).collect::<Option<_>>()?,
        },
        CompositeStep::Contraction { plan, unit } => {
            StoredStep::Contraction { plan: Box::new(plan.store()), unit: *unit }
        }
        CompositeStep::Part(at) => StoredStep::Part(*at),
    })
}

fn stored_clip(clip: &Affine) -> Option<(i64, Vec<(u32, i64)>)> {
    let term = |&(var, coefficient): &(Var, i64)| match var {
        Var::Symbol(symbol) => Some((symbol.0, coefficient)),
        Var::Loop(_) => None,
    };
    Some((clip.offset(), clip.terms().iter().map(term).collect::<Option<_>>()?))
}

/// The artifact with this data, whose kernels have these ABIs.
///
/// # Safety
///
/// [`store`] of this very program made the data on this CPU, of an artifact with these ABIs.
pub(crate) unsafe fn restore(stored: &[u8], kernels: Vec<KernelAbi>, cpu: &CpuTarget) -> Option<Artifact> {
    let StoredModule { functions, kernels: stored } = postcard::from_bytes(stored).ok()?;
    let mut restorer = Restorer { functions: functions.into_iter(), cpu };
    if stored.len() != kernels.len() {
        return None;
    }
    let mut compiled = Vec::with_capacity(kernels.len());
    for (kernel, abi) in stored.into_iter().zip(kernels) {
        // SAFETY: the caller's promise.
        compiled.push((unsafe { restorer.kernel(kernel) }?, abi));
    }
    if restorer.functions.next().is_some() {
        return None;
    }
    Some(Artifact::host(jit::host_module(compiled).ok()?))
}

struct Restorer<'a, 'c> {
    /// The functions that no kernel has taken yet.
    functions: std::vec::IntoIter<StoredFunction<'a>>,
    cpu: &'c CpuTarget,
}

impl Restorer<'_, '_> {
    /// # Safety
    ///
    /// The promise of [`restore`].
    unsafe fn kernel(&mut self, kernel: StoredKernel<'_>) -> Option<Compiled> {
        match kernel {
            StoredKernel::Function => {
                let StoredFunction { bytes, instructions, calls, is_of_cranelift } = self.functions.next()?;
                Some(match is_of_cranelift {
                    true => Compiled::Function(CraneliftCode::from_compiled(bytes.to_vec(), calls)?),
                    // SAFETY: the caller's promise: a vector program was compiled to these bytes.
                    false => Compiled::Program(unsafe {
                        VectorCode::from_compiled(bytes.to_vec(), instructions.min(bytes.len()))
                    }),
                })
            }
            StoredKernel::Composite { steps, parts, args, symbols, shared, scratch } => {
                // SAFETY: the caller's promise.
                let parts: Vec<Compiled> =
                    parts.into_iter().map(|part| unsafe { self.kernel(part) }).collect::<Option<_>>()?;
                let num_parts = parts.len();
                // SAFETY: as above.
                let step = |step| unsafe { self.step(step, num_parts) };
                let steps = steps.into_iter().map(step).collect::<Option<_>>()?;
                let composite = CompositeKernel { steps, parts: Vec::new(), args, symbols, shared, scratch };
                Some(Compiled::Steps(Box::new(composite), parts))
            }
        }
    }

    /// # Safety
    ///
    /// The promise of [`restore`].
    unsafe fn step(&self, step: StoredStep<'_>, parts: usize) -> Option<CompositeStep> {
        Some(match step {
            StoredStep::Loop { binding, end: (limit, clips), condition, is_parallel, steps } => {
                let condition = match condition {
                    Some((node, dtype)) => Some((node, dtype.parse().ok()?)),
                    None => None,
                };
                // SAFETY: the caller's promise.
                let step = |step| unsafe { self.step(step, parts) };
                let steps = steps.into_iter().map(step).collect::<Option<_>>()?;
                let end = clips.into_iter().map(clip).fold(Bound::from(limit), Bound::clipped);
                CompositeStep::Loop { binding, end, condition, is_parallel, steps }
            }
            StoredStep::Contraction { plan, unit } => {
                // SAFETY: the caller's promise.
                let plan = Arc::new(unsafe { GemmPlan::restore(&plan, self.cpu) }?);
                CompositeStep::Contraction { plan, unit }
            }
            StoredStep::Part(at) if at < parts => CompositeStep::Part(at),
            StoredStep::Part(_) => return None,
        })
    }
}

fn clip((offset, terms): (i64, Vec<(u32, i64)>)) -> Affine {
    let term = |sum: Affine, (symbol, coefficient)| sum.plus(&Affine::term(SymbolId(symbol), coefficient));
    terms.into_iter().fold(Affine::constant(offset), term)
}
