//! The plan of a kernel with contractions: its parts, each with a GEMM plan or compiled like any other
//! kernel.
//!
//! The scheduler asks which contractions of a kernel are compiled whole. The plan that answers this question
//! is kept with the kernel until the kernel is compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use codegen_core::canonical::{Arrays, Contraction};
use codegen_core::{CodegenError, Kernel};
use lowered_ir::ir::{Bound, LocalDecl, LoopId, Stmt, SymbolId};
use microkernels::{BlockingChoice, ChoiceError, CpuTarget, GemmPlan, GemmProblem, UnlinkedPlan};

use super::divide::{DividedKernel, KernelPart, divide, has_conditions, may_divide};
use super::gemm_problem;
use super::run::MAX_PARAMETERS;
use crate::choice::CompilationChoice;
use crate::support::failed;
use crate::vector::{self, Target};

/// The plan of a product.
pub(crate) trait ProductPlan: Sized + Send + Sync + 'static {
    /// The plan for a CPU, with a choice or the heuristics; `None` if there is none.
    fn of(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        choice: Option<&BlockingChoice>,
    ) -> Result<Option<Self>, ChoiceError>;
}

/// Plans that this process runs.
impl ProductPlan for GemmPlan {
    fn of(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        choice: Option<&BlockingChoice>,
    ) -> Result<Option<Self>, ChoiceError> {
        match choice {
            None => Ok(GemmPlan::new(problem, cpu)),
            Some(choice) => GemmPlan::with_blocking(problem, cpu, choice),
        }
    }
}

/// Plans for objects.
impl ProductPlan for UnlinkedPlan {
    fn of(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        choice: Option<&BlockingChoice>,
    ) -> Result<Option<Self>, ChoiceError> {
        UnlinkedPlan::new(problem, cpu, choice)
    }
}

/// A kernel that runs as a composite. At least one part has a GEMM plan, or a condition ends a loop of it.
pub(crate) struct CompositePlan<P = GemmPlan> {
    /// The parts, in order.
    pub(crate) parts: Vec<PlannedPart<P>>,
    /// Locals that several parts share, which are nodes after the kernel's own.
    pub(crate) shared: Vec<LocalDecl>,
}

/// A part of a composite.
pub(crate) enum PlannedPart<P = GemmPlan> {
    /// Parts that run for each value of a symbol.
    Loop { symbol: SymbolId, end: Bound, is_parallel: bool, parts: Vec<PlannedPart<P>> },
    /// A contraction with a GEMM plan.
    Gemm(Box<PlannedGemm<P>>),
    /// A kernel that is compiled like any other.
    Alone(Box<Kernel>),
}

/// A contraction with a GEMM plan.
pub(crate) struct PlannedGemm<P = GemmPlan> {
    pub(crate) plan: Arc<P>,
    pub(super) contraction: Contraction,
    /// The kernel that consists of the contraction.
    kernel: Kernel,
}

/// A part of a composite in a flat list, in which loops are a start and an end around their parts.
pub(crate) enum FlatPart<'p, P = GemmPlan> {
    LoopStart { symbol: SymbolId, end: &'p Bound, is_parallel: bool },
    LoopEnd(SymbolId),
    Gemm(&'p PlannedGemm<P>),
    Alone(&'p Kernel),
}

/// The plan that a kernel keeps, with the CPU and the target for which it was made.
struct KeptPlan<P> {
    cpu: CpuTarget,
    target: Target,
    choice: CompilationChoice,
    composite: Option<Arc<CompositePlan<P>>>,
}

/// Plans a kernel as a composite, or returns the plan that the kernel keeps from an earlier call; `None` if
/// no contraction has a GEMM plan, and no loop a condition.
///
/// # Errors
///
/// [`CodegenError::Failed`] if a part is not a valid kernel, which is a bug, and [`CodegenError::Choice`] if
/// the choice for a contraction does not fit.
pub(crate) fn plan<P: ProductPlan>(
    kernel: &Kernel,
    cpu: &CpuTarget,
    target: Target,
    choice: &CompilationChoice,
) -> Result<Option<Arc<CompositePlan<P>>>, CodegenError> {
    if !may_divide(&kernel.ir().body) {
        choice.check_gemms(kernel, 0)?;
        return Ok(None);
    }
    let make = || -> Result<Option<Arc<CompositePlan<P>>>, CodegenError> {
        let composite = Planner { cpu, target, choice, num_gemms: 0 }.composite(kernel)?;
        choice.check_gemms(kernel, composite.as_ref().map_or(0, CompositePlan::num_gemms))?;
        Ok(composite.map(Arc::new))
    };
    let kept = kernel
        .plan_once(|| Ok(KeptPlan { cpu: *cpu, target, choice: choice.clone(), composite: make()? }))?;
    let is_the_same = (kept.cpu, kept.target, &kept.choice) == (*cpu, target, choice);
    if is_the_same { Ok(kept.composite.clone()) } else { make() }
}

/// Plans the parts of one kernel.
struct Planner<'a> {
    cpu: &'a CpuTarget,
    target: Target,
    choice: &'a CompilationChoice,
    num_gemms: usize,
}

impl Planner<'_> {
    fn composite<P: ProductPlan>(
        mut self,
        kernel: &Kernel,
    ) -> Result<Option<CompositePlan<P>>, CodegenError> {
        let Some(DividedKernel { parts, shared, .. }) = divided(kernel)? else { return Ok(None) };
        let parts = self.parts(parts).map_err(|why| self.choice.does_not_fit(kernel, why))?;
        let is_worth = self.num_gemms > 0 || has_conditions(&kernel.ir().body);
        Ok(is_worth.then_some(CompositePlan { parts, shared }))
    }

    fn parts<P: ProductPlan>(&mut self, parts: Vec<KernelPart>) -> Result<Vec<PlannedPart<P>>, ChoiceError> {
        parts.into_iter().map(|part| self.part(part)).collect()
    }

    fn part<P: ProductPlan>(&mut self, part: KernelPart) -> Result<PlannedPart<P>, ChoiceError> {
        Ok(match part {
            KernelPart::Loop { symbol, end, is_parallel, parts } => {
                PlannedPart::Loop { symbol, end, is_parallel, parts: self.parts(parts)? }
            }
            KernelPart::Other(kernel) => PlannedPart::Alone(kernel),
            KernelPart::Contraction(kernel, contraction) => match self.gemm(&kernel, &contraction)? {
                Some(plan) => {
                    self.num_gemms += 1;
                    let (plan, contraction, kernel) = (Arc::new(plan), *contraction, *kernel);
                    PlannedPart::Gemm(Box::new(PlannedGemm { plan, contraction, kernel }))
                }
                None => PlannedPart::Alone(kernel),
            },
        })
    }

    /// The GEMM plan of a kernel that consists of one contraction.
    fn gemm<P: ProductPlan>(
        &self,
        kernel: &Kernel,
        contraction: &Contraction,
    ) -> Result<Option<P>, ChoiceError> {
        let arrays = Arrays::of(kernel.ir());
        let problem = vector::epilogue(kernel, contraction, self.target)
            .ok()
            .and_then(|epilogue| gemm_problem::gemm_problem(contraction, epilogue, kernel.ir(), &arrays));
        match problem {
            None => Ok(None),
            Some(problem) => P::of(&problem, self.cpu, self.choice.gemm(self.num_gemms)),
        }
    }
}

/// Divides a kernel into parts, if it may run as a composite.
fn divided(kernel: &Kernel) -> Result<Option<DividedKernel>, CodegenError> {
    if !kernel.abi().log.is_empty() {
        // A kernel that logs gets the address of its log as the argument after its own nodes. Parts have
        // shared nodes at that position, so such a kernel is not divided.
        return Ok(None);
    }
    let fits = |divided: &DividedKernel| {
        kernel.ir().nodes.len() + divided.shared.len() <= MAX_PARAMETERS && divided.symbols <= MAX_PARAMETERS
    };
    let divided = divide(kernel).map_err(|e| failed(&kernel.abi().name, "dividing it", e.to_string()))?;
    Ok(divided.filter(fits))
}

impl<P> CompositePlan<P> {
    /// The contractions with GEMM plans, each by the variable of its outermost loop.
    pub(crate) fn contractions(&self) -> BTreeSet<LoopId> {
        let gemms = self.flat_parts().into_iter().filter_map(|part| match part {
            FlatPart::Gemm(gemm) => Some(gemm),
            _ => None,
        });
        gemms.filter_map(PlannedGemm::outermost_loop).collect()
    }

    /// The contractions with GEMM plans, in order.
    pub(crate) fn gemms(&self) -> impl Iterator<Item = &P> {
        self.flat_parts().into_iter().filter_map(|part| match part {
            FlatPart::Gemm(gemm) => Some(&*gemm.plan),
            _ => None,
        })
    }

    fn num_gemms(&self) -> usize {
        self.gemms().count()
    }

    /// The parts in the order in which they run, with the start and the end of each loop.
    pub(crate) fn flat_parts(&self) -> Vec<FlatPart<'_, P>> {
        let mut flat = Vec::new();
        flatten(&self.parts, &mut flat);
        flat
    }
}

fn flatten<'p, P>(parts: &'p [PlannedPart<P>], flat: &mut Vec<FlatPart<'p, P>>) {
    for part in parts {
        match part {
            PlannedPart::Loop { symbol, end, is_parallel, parts } => {
                flat.push(FlatPart::LoopStart { symbol: *symbol, end, is_parallel: *is_parallel });
                flatten(parts, flat);
                flat.push(FlatPart::LoopEnd(*symbol));
            }
            PlannedPart::Gemm(gemm) => flat.push(FlatPart::Gemm(gemm)),
            PlannedPart::Alone(kernel) => flat.push(FlatPart::Alone(kernel)),
        }
    }
}

impl PlannedGemm {
    /// The tiles and the packing, in words.
    pub(crate) fn choices(&self) -> String {
        self.plan.choices()
    }
}

impl<P> PlannedGemm<P> {
    /// M, N and K.
    pub(crate) fn dimensions(&self) -> [i64; 3] {
        let found = &self.contraction;
        [found.num_rows(), found.num_columns(), found.num_products()]
    }

    /// If calls divide the plan, the positions along its parallel axis in one iteration of a call's range.
    pub(crate) fn unit(&self) -> Option<u64> {
        self.contraction.parallel.map(|_| gemm_problem::parallel_unit(&self.contraction))
    }

    /// The epilogue of one row as text.
    pub(crate) fn epilogue(&self) -> String {
        let epilogue = vector::epilogue(&self.kernel, &self.contraction, vector::target());
        epilogue.map_or_else(|reason| reason.to_string(), |program| program.to_string())
    }

    fn outermost_loop(&self) -> Option<LoopId> {
        self.kernel.ir().body.iter().find_map(|stmt| match stmt {
            Stmt::For { var, .. } => Some(*var),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use codegen_core::{Access, Cost, KernelAbi, Launch, Param};

    use super::*;

    fn matmul() -> Kernel {
        let ir = lowered_ir::text::parse(
            "routine @matmul fast {
              node %0 \"a\" f32[16, 16]
              node %1 \"b\" f32[16, 16]
              node %2 \"c\" f32[16, 16]
              for i0 in 0..16 { for i1 in 0..16 {
                declare l0 f32[] register
                for i2 in 0..16 { l0 := fma(%0[i0, i2], %1[i2, i1], l0) }
                %2[i0, i1] := l0
              } }
            }",
        );
        let ir = ir.expect("the text is valid");
        let abi = KernelAbi {
            name: "test".into(),
            params: vec![Param::Node { access: Access::ReadWrite, bytes: 1024 }; 3],
            launch: Launch::whole(&ir.body),
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        };
        Kernel::verified(ir, abi).expect("a valid kernel")
    }

    #[test]
    fn a_plan_is_used_again_for_the_same_kernel_and_cpu() {
        let (cpu, target) = (CpuTarget::detect(), vector::target());
        if cpu.isa.is_none() {
            println!("skipped: this machine has no GEMM plans");
            return;
        }
        let kernel = matmul();
        let planned = |kernel: &Kernel, cpu: &CpuTarget| {
            plan::<GemmPlan>(kernel, cpu, target, &CompilationChoice::default())
                .expect("parts are kernels")
                .expect("it has a contraction")
        };
        let first = planned(&kernel, &cpu);
        assert_eq!(first.contractions(), BTreeSet::from([LoopId(0)]));
        assert!(Arc::ptr_eq(&first, &planned(&kernel.clone(), &cpu)));
        let more_threads = CpuTarget { threads: cpu.threads + 1, ..cpu };
        assert!(!Arc::ptr_eq(&first, &planned(&kernel, &more_threads)), "a plan for another CPU");
        let (ir, abi) = kernel.into_parts();
        let other = Kernel::new(ir, abi).expect("it agrees with its ABI");
        assert!(!Arc::ptr_eq(&first, &planned(&other, &cpu)), "another kernel");
    }
}
