//! Kernels with contractions: composites of GEMM plans and other parts, which run one after the other.
//!
//! `microkernels` plans each contraction, with the statements that consume its accumulators as an epilogue.
//! Everything else is compiled like any other kernel.

mod divide;
mod gemm_problem;
pub(crate) mod run;

use std::collections::BTreeSet;

use codegen_core::canonical::{Arrays, Contraction};
use codegen_core::{CodegenError, Kernel, KernelAbi, Launch};
use lowered_ir::ir::{LoopId, Stmt};
use microkernels::{CpuTarget, GemmPlan};

use crate::jit::Compiled;
use crate::support::failed;
use crate::vector::{self, Target};
use divide::{DividedKernel, KernelPart};
use run::{CompositeKernel, CompositeStep, MAX_PARAMETERS};

/// Compiles a part that is not a contraction; returns its code and ABI.
pub(crate) type CompilePart<'a> = &'a mut dyn FnMut(&Kernel) -> Result<(Compiled, KernelAbi), CodegenError>;

/// Compiles a kernel with contractions as a composite; `None` if no contraction of it has a plan.
///
/// # Errors
///
/// The errors of compiling its other parts, and [`CodegenError::Failed`] if a part is not a valid kernel.
pub(crate) fn compose(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
    compile: CompilePart<'_>,
) -> Result<Option<(Compiled, KernelAbi)>, CodegenError> {
    let Some(divided) = composable(kernel)? else { return Ok(None) };
    let own_args = kernel.ir().nodes.len();
    let mut shared = Vec::new();
    let mut scratch = 0usize;
    for decl in &divided.shared {
        shared.push(scratch);
        scratch += divide::bytes(decl).next_multiple_of(target.alignment);
    }
    let mut composer = Composer {
        cpu,
        target,
        parts: Vec::new(),
        scratch: 0,
        plans: 0,
        launch: kernel.abi().launch,
        compile,
    };
    let DividedKernel { parts, .. } = divided;
    let steps = composer.steps(parts)?;
    if composer.plans == 0 {
        return Ok(None);
    }
    let abi = KernelAbi {
        scratch_bytes: scratch + composer.scratch,
        launch: composer.launch,
        ..kernel.abi().clone()
    };
    let symbols = kernel.ir().symbols.len();
    let composite = CompositeKernel { steps, parts: Vec::new(), args: own_args, symbols, shared, scratch };
    Ok(Some((Compiled::Steps(Box::new(composite), composer.parts), abi)))
}

/// Divides a kernel into parts, if it may run as a composite.
fn composable(kernel: &Kernel) -> Result<Option<DividedKernel>, CodegenError> {
    if !kernel.abi().log.is_empty() {
        // A kernel that logs is not a composite: the argument after the kernel's own nodes is the address of
        // its log, but a part has a shared node there.
        return Ok(None);
    }
    let fits = |divided: &DividedKernel| {
        kernel.ir().nodes.len() + divided.shared.len() <= MAX_PARAMETERS && divided.symbols <= MAX_PARAMETERS
    };
    Ok(divided(kernel)?.filter(fits))
}

struct Composer<'a> {
    cpu: &'a CpuTarget,
    target: Target,
    parts: Vec<Compiled>,
    /// The most scratch memory of any part, in bytes.
    scratch: usize,
    plans: usize,
    launch: Launch,
    compile: CompilePart<'a>,
}

impl Composer<'_> {
    fn steps(&mut self, parts: Vec<KernelPart>) -> Result<Vec<CompositeStep>, CodegenError> {
        parts.into_iter().map(|part| self.step(part)).collect()
    }

    fn step(&mut self, part: KernelPart) -> Result<CompositeStep, CodegenError> {
        match part {
            KernelPart::Loop { symbol, extent, is_parallel, parts } => Ok(CompositeStep::Loop {
                binding: symbol.index(),
                extent: extent as u64,
                is_parallel,
                steps: self.steps(parts)?,
            }),
            KernelPart::Other(kernel) => self.compiled(&kernel),
            KernelPart::Contraction(kernel, found) => match plan(&kernel, &found, self.cpu, self.target) {
                Some(plan) => Ok(self.contraction(plan, &found)),
                None => self.compiled(&kernel),
            },
        }
    }

    fn compiled(&mut self, kernel: &Kernel) -> Result<CompositeStep, CodegenError> {
        let (code, abi) = (self.compile)(kernel)?;
        self.scratch = self.scratch.max(abi.scratch_bytes);
        self.parts.push(code);
        Ok(CompositeStep::Part(self.parts.len() - 1))
    }

    fn contraction(&mut self, plan: GemmPlan, found: &Contraction) -> CompositeStep {
        self.plans += 1;
        self.scratch = self.scratch.max(plan.scratch_bytes());
        let unit = found.parallel.map(|_| gemm_problem::parallel_unit(found));
        if let Some(unit) = unit {
            self.launch = launch(self.launch, plan.grain().div_ceil(unit), self.cpu.threads as u64);
        }
        CompositeStep::Contraction { plan: Box::new(plan), unit }
    }
}

/// The launch with one part per thread, because each part packs operands for itself. A part has `extent /
/// threads` iterations, rounded down, but at least `grain`.
fn launch(launch: Launch, grain: u64, threads: u64) -> Launch {
    let each = launch.extent / threads.max(1);
    Launch { grain: each.max(grain).clamp(1, launch.extent.max(1)), ..launch }
}

/// The plan of a kernel that consists of one contraction.
fn plan(kernel: &Kernel, found: &Contraction, cpu: &CpuTarget, target: Target) -> Option<GemmPlan> {
    let arrays = Arrays::of(kernel.ir());
    let epilogue = vector::epilogue(kernel, found, target).ok()?;
    let problem = gemm_problem::gemm_problem(found, epilogue, kernel.ir(), &arrays)?;
    GemmPlan::new(&problem, cpu)
}

/// A part in words, with its kernel if it is compiled separately.
type DescribedPart = (String, Option<Kernel>);

/// Describes the parts of a kernel with contractions for listings.
pub(crate) fn parts_of(kernel: &Kernel) -> Result<Option<Vec<DescribedPart>>, CodegenError> {
    let mut described = Vec::new();
    let Some(divided) = divided(kernel)? else { return Ok(None) };
    describe(divided.parts, &mut described);
    Ok(Some(described))
}

fn divided(kernel: &Kernel) -> Result<Option<DividedKernel>, CodegenError> {
    divide::divide(kernel).map_err(|e| failed(&kernel.abi().name, "dividing it", e.to_string()))
}

/// How a part of a composite is computed.
pub(crate) enum PartMethod {
    /// By a GEMM plan with these M, N and K.
    Gemm([i64; 3]),
    /// Compiled like any other kernel.
    Alone(Box<Kernel>),
}

/// The method for each part of a kernel, in order; `None` for a kernel that is not a composite.
pub(crate) fn methods(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
) -> Result<Option<Vec<PartMethod>>, CodegenError> {
    let Some(divided) = composable(kernel)? else { return Ok(None) };
    let mut methods = Vec::new();
    add_methods(divided.parts, cpu, target, &mut methods);
    let has_plan = methods.iter().any(|method| matches!(method, PartMethod::Gemm(_)));
    Ok(has_plan.then_some(methods))
}

/// The contractions of a kernel that [`compose`] plans, each by the variable of its outermost loop.
pub(crate) fn planned(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
) -> Result<BTreeSet<LoopId>, CodegenError> {
    let mut planned = BTreeSet::new();
    if let Some(divided) = composable(kernel)? {
        add_planned(&divided.parts, cpu, target, &mut planned);
    }
    Ok(planned)
}

fn add_planned(parts: &[KernelPart], cpu: &CpuTarget, target: Target, planned: &mut BTreeSet<LoopId>) {
    for part in parts {
        match part {
            KernelPart::Loop { parts, .. } => add_planned(parts, cpu, target, planned),
            KernelPart::Contraction(kernel, found) if plan(kernel, found, cpu, target).is_some() => {
                planned.extend(kernel.ir().body.iter().filter_map(|stmt| match stmt {
                    Stmt::For { var, .. } => Some(*var),
                    _ => None,
                }));
            }
            KernelPart::Contraction(..) | KernelPart::Other(_) => {}
        }
    }
}

fn add_methods(parts: Vec<KernelPart>, cpu: &CpuTarget, target: Target, methods: &mut Vec<PartMethod>) {
    for part in parts {
        match part {
            KernelPart::Loop { parts, .. } => add_methods(parts, cpu, target, methods),
            KernelPart::Other(kernel) => methods.push(PartMethod::Alone(kernel)),
            KernelPart::Contraction(kernel, found) => {
                methods.push(match plan(&kernel, &found, cpu, target) {
                    Some(_) => {
                        PartMethod::Gemm([found.num_rows(), found.num_columns(), found.num_products()])
                    }
                    None => PartMethod::Alone(kernel),
                })
            }
        }
    }
}

fn describe(parts: Vec<KernelPart>, described: &mut Vec<DescribedPart>) {
    for part in parts {
        match part {
            KernelPart::Loop { symbol, extent, is_parallel, parts } => {
                let kind = if is_parallel { "parallel" } else { "serial" };
                described.push((format!("for {symbol} in 0..{extent} {kind}:"), None));
                describe(parts, described);
                described.push((format!("end of {symbol}"), None));
            }
            KernelPart::Contraction(kernel, found) => {
                let (m, n, k) = (found.num_rows(), found.num_columns(), found.num_products());
                let epilogue = vector::epilogue(&kernel, &found, vector::target());
                let epilogue =
                    epilogue.map_or_else(|reason| reason.to_string(), |program| program.to_string());
                described.push((format!("GEMM {m}x{n}x{k}, and for each row\n{epilogue}"), None));
            }
            KernelPart::Other(kernel) => described.push(("statements".into(), Some(*kernel))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gets_one_part_that_is_worth_it() {
        let grain =
            |extent, grain, threads| launch(Launch { extent, grain: 1, threads: 1 }, grain, threads).grain;
        // 512 rows are not a multiple of a tile's height, but make two equal parts.
        assert_eq!(grain(512, 6, 2), 256);
        assert_eq!(grain(785, 16, 2), 392);
        assert_eq!(grain(64, 60, 2), 60, "which makes one part");
        assert_eq!(grain(3, 1, 8), 1);
        assert_eq!(grain(0, 6, 2), 1);
    }
}
