//! Kernels with contractions: what they are made of, and how the parts run one after the other.
//!
//! A kernel that is one contraction, or has some among other statements, becomes a list of steps ([`run::Composite`]). Contractions are planned by
//! `microkernels`, which runs what becomes of their sums on each tile; everything else is compiled as any kernel.

mod parts;
pub(crate) mod run;
mod spec;

use codegen_core::canonical::{Arrays, Contraction};
use codegen_core::{CodegenError, Kernel, KernelAbi, Launch};
use microkernels::{CpuTarget, GemmPlan};

use crate::jit::Compiled;
use crate::support::failed;
use crate::vector::{self, Target};
use parts::{Divided, Part};
use run::{Composite, MOST, Step};

/// What compiles a part that is no contraction: its code, and how it is called.
pub(crate) type Compile<'a> = &'a mut dyn FnMut(&Kernel) -> Result<(Compiled, KernelAbi), CodegenError>;

/// A kernel with contractions as steps, and how it is called; `None` if it has none that are planned.
///
/// # Errors
///
/// Those of compiling its other parts, and [`CodegenError::Failed`] where a part is no kernel.
pub(crate) fn compose(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
    compile: Compile<'_>,
) -> Result<Option<(Compiled, KernelAbi)>, CodegenError> {
    let Some(divided) = composable(kernel)? else { return Ok(None) };
    let own_args = kernel.ir().nodes.len();
    let mut shared = Vec::new();
    let mut scratch = 0usize;
    for decl in &divided.shared {
        shared.push(scratch);
        scratch += parts::bytes(decl).next_multiple_of(target.alignment);
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
    let Divided { parts, .. } = divided;
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
    let composite = Composite { steps, parts: Vec::new(), args: own_args, symbols, shared, scratch };
    Ok(Some((Compiled::Steps(Box::new(composite), composer.parts), abi)))
}

/// The parts of a kernel, if they may run as steps.
fn composable(kernel: &Kernel) -> Result<Option<Divided>, CodegenError> {
    if !kernel.abi().log.is_empty() {
        // A log's place among the arguments is behind the kernel's own nodes, where parts have shared ones.
        return Ok(None);
    }
    let fits =
        |divided: &Divided| kernel.ir().nodes.len() + divided.shared.len() <= MOST && divided.symbols <= MOST;
    Ok(divided(kernel)?.filter(fits))
}

struct Composer<'a> {
    cpu: &'a CpuTarget,
    target: Target,
    parts: Vec<Compiled>,
    /// What the part that needs most needs of scratch memory.
    scratch: usize,
    plans: usize,
    launch: Launch,
    compile: Compile<'a>,
}

impl Composer<'_> {
    fn steps(&mut self, parts: Vec<Part>) -> Result<Vec<Step>, CodegenError> {
        parts.into_iter().map(|part| self.step(part)).collect()
    }

    fn step(&mut self, part: Part) -> Result<Step, CodegenError> {
        match part {
            Part::Loop { symbol, extent, is_parallel, parts } => Ok(Step::Loop {
                binding: symbol.index(),
                extent: extent as u64,
                is_parallel,
                steps: self.steps(parts)?,
            }),
            Part::Other(kernel) => self.compiled(&kernel),
            Part::Contraction(kernel, found) => match plan(&kernel, &found, self.cpu, self.target) {
                Some(plan) => Ok(self.contraction(plan, &found)),
                None => self.compiled(&kernel),
            },
        }
    }

    fn compiled(&mut self, kernel: &Kernel) -> Result<Step, CodegenError> {
        let (code, abi) = (self.compile)(kernel)?;
        self.scratch = self.scratch.max(abi.scratch_bytes);
        self.parts.push(code);
        Ok(Step::Part(self.parts.len() - 1))
    }

    fn contraction(&mut self, plan: GemmPlan, found: &Contraction) -> Step {
        self.plans += 1;
        self.scratch = self.scratch.max(plan.scratch_bytes());
        let unit = found.parallel.map(|_| spec::parallel_unit(found));
        if let Some(unit) = unit {
            self.launch = launch(self.launch, plan.grain().div_ceil(unit), self.cpu.threads as u64);
        }
        Step::Contraction { plan: Box::new(plan), unit }
    }
}

/// One part for each thread, since whoever takes a part packs for itself. Rounded down: there are as many parts as grains fit.
fn launch(launch: Launch, grain: u64, threads: u64) -> Launch {
    let each = launch.extent / threads.max(1);
    Launch { grain: each.max(grain).clamp(1, launch.extent.max(1)), ..launch }
}

/// The plan of a kernel that is one contraction.
fn plan(kernel: &Kernel, found: &Contraction, cpu: &CpuTarget, target: Target) -> Option<GemmPlan> {
    let arrays = Arrays::of(kernel.ir());
    let epilogue = vector::epilogue(kernel, found, target).ok()?;
    let problem = spec::gemm_problem(found, epilogue, kernel.ir(), &arrays)?;
    GemmPlan::new(&problem, cpu)
}

/// A part of a kernel in words, and its kernel if it is compiled alone.
type DescribedPart = (String, Option<Kernel>);

/// What a kernel with contractions consists of, for people to read: each part in words, and its kernel if it is compiled alone.
pub(crate) fn parts_of(kernel: &Kernel) -> Result<Option<Vec<DescribedPart>>, CodegenError> {
    let mut described = Vec::new();
    let Some(divided) = divided(kernel)? else { return Ok(None) };
    describe(divided.parts, &mut described);
    Ok(Some(described))
}

fn divided(kernel: &Kernel) -> Result<Option<Divided>, CodegenError> {
    parts::divide(kernel).map_err(|e| failed(&kernel.abi().name, "dividing it", e.to_string()))
}

/// A part of a kernel that [`compose`] takes.
pub(crate) enum PartMethod {
    /// A planned contraction of this many rows, columns and products.
    Product([i64; 3]),
    /// Compiled as a kernel of its own.
    Alone(Box<Kernel>),
}

/// How the parts of a kernel are computed, in order; `None` for a kernel that [`compose`] does not take.
pub(crate) fn methods(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
) -> Result<Option<Vec<PartMethod>>, CodegenError> {
    let Some(divided) = composable(kernel)? else { return Ok(None) };
    let mut methods = Vec::new();
    add_methods(divided.parts, cpu, target, &mut methods);
    let has_product = methods.iter().any(|method| matches!(method, PartMethod::Product(_)));
    Ok(has_product.then_some(methods))
}

fn add_methods(parts: Vec<Part>, cpu: &CpuTarget, target: Target, methods: &mut Vec<PartMethod>) {
    for part in parts {
        match part {
            Part::Loop { parts, .. } => add_methods(parts, cpu, target, methods),
            Part::Other(kernel) => methods.push(PartMethod::Alone(kernel)),
            Part::Contraction(kernel, found) => methods.push(match plan(&kernel, &found, cpu, target) {
                Some(_) => PartMethod::Product([found.num_rows(), found.num_columns(), found.num_products()]),
                None => PartMethod::Alone(kernel),
            }),
        }
    }
}

fn describe(parts: Vec<Part>, described: &mut Vec<DescribedPart>) {
    for part in parts {
        match part {
            Part::Loop { symbol, extent, is_parallel, parts } => {
                let kind = if is_parallel { "parallel" } else { "serial" };
                described.push((format!("for {symbol} in 0..{extent} {kind}:"), None));
                describe(parts, described);
                described.push((format!("end of {symbol}"), None));
            }
            Part::Contraction(kernel, found) => {
                let (rows, columns, depth) = (found.num_rows(), found.num_columns(), found.num_products());
                let epilogue = vector::epilogue(&kernel, &found, vector::target());
                let epilogue =
                    epilogue.map_or_else(|reason| reason.to_string(), |program| program.to_string());
                described
                    .push((format!("product {rows}x{columns}x{depth}, and for each row\n{epilogue}"), None));
            }
            Part::Other(kernel) => described.push(("statements".into(), Some(*kernel))),
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
        // 512 rows are no whole number of tiles, but two equal parts all the same.
        assert_eq!(grain(512, 6, 2), 256);
        assert_eq!(grain(785, 16, 2), 392);
        assert_eq!(grain(64, 60, 2), 60, "which makes one part");
        assert_eq!(grain(3, 1, 8), 1);
        assert_eq!(grain(0, 6, 2), 1);
    }
}
