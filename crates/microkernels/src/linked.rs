//! Plans that are made before a program ships, and whose epilogues are functions of the program.
//!
//! The data of a plan has its problem, its choice and the processor that it is for, so that the program plans
//! the same again: addresses and sizes of blocks are checked as in a new plan.
#![allow(unsafe_code, reason = "functions that a linker found are called by plans")]

use std::borrow::Cow;
#[cfg(feature = "assembler")]
use std::fmt;

use serde::{Deserialize, Serialize};
use vector_asm::VectorFunction;

use crate::choice::BlockingChoice;
use crate::epilogue::EpilogueFunctions;
use crate::machine::CpuTarget;
use crate::plan::{EpilogueSource, GemmPlan, PlanSource};
use crate::problem::GemmProblem;

/// The version of plans as data. A change of the form of the data raises it, and so does a change of the
/// choices of plans: the functions of an epilogue are compiled for the blocks and the scratch memory of the
/// process that compiles, and the program plans again.
pub const PLAN_VERSION: u32 = 3;

/// A plan as data, without the functions of its epilogue, which are linked to the program that runs it.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkedPlan<'a> {
    problem: Cow<'a, GemmProblem>,
    choice: Option<BlockingChoice>,
    cpu: CpuTarget,
    order: EpilogueFunctions,
}

impl LinkedPlan<'_> {
    /// The plan with its functions; `None` if it is none for this processor.
    ///
    /// # Safety
    ///
    /// The data is that of an [`UnlinkedPlan`] of this version, and the functions are its functions.
    pub unsafe fn plan(&self, functions: &[VectorFunction]) -> Option<GemmPlan> {
        let epilogue = EpilogueSource::Linked(&self.order, functions);
        let source = PlanSource { choice: self.choice.as_ref(), epilogue };
        GemmPlan::planned(&self.problem, &self.cpu, source)?.ok()
    }
}

/// A plan for another process, whose processor need not be this one.
#[cfg(feature = "assembler")]
#[derive(Debug)]
pub struct UnlinkedPlan {
    /// The plan, which cannot run: its epilogue has no functions.
    plan: GemmPlan,
    cpu: CpuTarget,
}

#[cfg(feature = "assembler")]
impl UnlinkedPlan {
    /// Plans a GEMM for a CPU of this architecture, with a choice of packing and block sizes or the
    /// heuristics; `None` where [`GemmPlan::new`] has no plan on such a CPU.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`](crate::ChoiceError) if the choice does not fit the problem.
    pub fn new(
        problem: &GemmProblem,
        cpu: &CpuTarget,
        choice: Option<&BlockingChoice>,
    ) -> Result<Option<UnlinkedPlan>, crate::ChoiceError> {
        let source = PlanSource { choice, epilogue: EpilogueSource::CompiledElsewhere };
        let plan = GemmPlan::planned(problem, cpu, source).transpose()?;
        Ok(plan.map(|plan| UnlinkedPlan { plan, cpu: *cpu }))
    }

    /// The plan as data.
    pub fn data(&self) -> LinkedPlan<'_> {
        let order = self.plan.epilogue().map(|epilogue| epilogue.order().clone()).unwrap_or_default();
        LinkedPlan {
            problem: Cow::Borrowed(&self.plan.problem),
            choice: self.plan.choice,
            cpu: self.cpu,
            order,
        }
    }

    /// The machine code of each function, followed by its constants. Its address must be a multiple of 64.
    pub fn functions(&self) -> impl Iterator<Item = &[u8]> {
        self.plan.machine_code()
    }

    /// [`GemmPlan::scratch_bytes`] of the plan.
    pub fn scratch_bytes(&self) -> usize {
        self.plan.scratch_bytes()
    }

    /// [`GemmPlan::grain`] of the plan.
    pub fn grain(&self) -> u64 {
        self.plan.grain()
    }
}

/// Shows the choices that the program must repeat, for the functions of the epilogue fit no others.
#[cfg(feature = "assembler")]
impl fmt::Display for UnlinkedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} bytes, parts of {}", self.plan.choices(), self.scratch_bytes(), self.grain())?;
        match self.plan.epilogue() {
            Some(epilogue) => write!(f, "; {:?}; {:?}", epilogue.operand_access(), epilogue.order()),
            None => Ok(()),
        }
    }
}
