//! Kernels with contractions, or with loops that a condition ends: composites of GEMM plans and other parts,
//! which run one after the other.
//!
//! `microkernels` plans each contraction, with the statements that consume its accumulators as an epilogue.
//! Everything else is compiled like any other kernel.

mod divide;
mod gemm_problem;
mod plan;
pub(crate) mod run;

use codegen_core::{CodegenError, Kernel, KernelAbi, Launch};

use crate::jit::Compiled;
pub(crate) use divide::has_conditions;
pub(crate) use plan::{CompositePlan, FlatPart, PlannedGemm, PlannedPart, plan};
use run::{CompositeKernel, CompositeStep};

/// Compiles a part that is not a contraction; returns its code and ABI.
pub(crate) type CompilePart<'a> = &'a mut dyn FnMut(&Kernel) -> Result<(Compiled, KernelAbi), CodegenError>;

/// Compiles a planned kernel for a number of threads. Shared nodes are aligned to `alignment` bytes.
///
/// # Errors
///
/// The errors of compiling the parts without a GEMM plan.
pub(crate) fn compose(
    kernel: &Kernel,
    plan: &CompositePlan,
    threads: usize,
    alignment: usize,
    compile: CompilePart<'_>,
) -> Result<(Compiled, KernelAbi), CodegenError> {
    let own_args = kernel.ir().nodes.len();
    let (shared, scratch) = plan.shared_offsets(alignment);
    let launch = kernel.abi().launch;
    let mut composer = Composer { kernel, threads, parts: Vec::new(), scratch: 0, launch, compile };
    let steps = composer.steps(&plan.parts)?;
    let abi = KernelAbi {
        scratch_bytes: scratch + composer.scratch,
        launch: composer.launch,
        ..kernel.abi().clone()
    };
    let symbols = kernel.ir().symbols.len();
    let composite = CompositeKernel { steps, parts: Vec::new(), args: own_args, symbols, shared, scratch };
    Ok((Compiled::Steps(Box::new(composite), composer.parts), abi))
}

impl<P> CompositePlan<P> {
    /// The offset of each shared node in scratch memory, and the bytes of all.
    pub(crate) fn shared_offsets(&self, alignment: usize) -> (Vec<usize>, usize) {
        let mut bytes = 0;
        let offsets = self.shared.iter().map(|decl| {
            let offset = bytes;
            bytes += divide::bytes(decl).next_multiple_of(alignment);
            offset
        });
        (offsets.collect(), bytes)
    }
}

struct Composer<'a> {
    kernel: &'a Kernel,
    threads: usize,
    parts: Vec<Compiled>,
    /// The largest scratch memory of any part, in bytes.
    scratch: usize,
    launch: Launch,
    compile: CompilePart<'a>,
}

impl Composer<'_> {
    fn steps(&mut self, parts: &[PlannedPart]) -> Result<Vec<CompositeStep>, CodegenError> {
        parts.iter().map(|part| self.step(part)).collect()
    }

    fn step(&mut self, part: &PlannedPart) -> Result<CompositeStep, CodegenError> {
        match part {
            PlannedPart::Loop { symbol, end, is_parallel, parts } => Ok(CompositeStep::Loop {
                binding: symbol.index(),
                end: end.clone(),
                condition: end.condition().map(|node| (node.index(), self.kernel.ir().node(node).dtype)),
                is_parallel: *is_parallel,
                steps: self.steps(parts)?,
            }),
            PlannedPart::Alone(kernel) => self.compiled(kernel),
            PlannedPart::Gemm(gemm) => Ok(self.contraction(gemm)),
        }
    }

    fn compiled(&mut self, kernel: &Kernel) -> Result<CompositeStep, CodegenError> {
        let (code, abi) = (self.compile)(kernel)?;
        self.scratch = self.scratch.max(abi.scratch_bytes);
        self.parts.push(code);
        Ok(CompositeStep::Part(self.parts.len() - 1))
    }

    fn contraction(&mut self, gemm: &PlannedGemm) -> CompositeStep {
        let (plan, unit) = (&gemm.plan, gemm.unit());
        self.scratch = self.scratch.max(plan.scratch_bytes());
        if let Some(unit) = unit {
            self.launch = launch(self.launch, plan.grain().div_ceil(unit), self.threads as u64);
        }
        CompositeStep::Contraction { plan: plan.clone(), unit }
    }
}

/// Changes the grain of a launch so that its iterations are divided into one range per thread, because each
/// range packs operands for itself. A range has `extent / threads` iterations, rounded down, but at least
/// `grain`.
fn launch(launch: Launch, grain: u64, threads: u64) -> Launch {
    // If the extent is known at each call only, the driver makes equal ranges.
    let each = if launch.end.is_some() { 1 } else { launch.extent / threads.max(1) };
    Launch { grain: each.max(grain).clamp(1, launch.extent.max(1)), ..launch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gets_one_part_that_is_worth_it() {
        let grain = |extent, grain, threads| {
            launch(Launch { extent, grain: 1, threads: 1, end: None }, grain, threads).grain
        };
        // 512 rows are not a multiple of a tile's height, but make two equal ranges.
        assert_eq!(grain(512, 6, 2), 256);
        assert_eq!(grain(785, 16, 2), 392);
        assert_eq!(grain(64, 60, 2), 60, "which makes one part");
        assert_eq!(grain(3, 1, 8), 1);
        assert_eq!(grain(0, 6, 2), 1);
    }
}
