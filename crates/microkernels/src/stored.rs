//! Plans as data, which outlives the process.
//!
//! The data has the problem and the choice of a plan and the machine code of its epilogue, so restoring it
//! plans again and compiles nothing. Addresses and sizes of blocks are checked as in a new plan.
#![allow(unsafe_code, reason = "machine code from a file is what this module is for")]

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use vector_asm::VectorCode;

use crate::choice::BlockingChoice;
use crate::epilogue::{Epilogue, EpilogueFunctions};
use crate::epilogue_code::EpilogueCode;
use crate::machine::CpuTarget;
use crate::plan::{EpilogueSource, GemmPlan, PlanSource};
use crate::problem::GemmProblem;

/// A plan as data, which a process keeps for another one of the same program on the same CPU.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredPlan<'a> {
    problem: Cow<'a, GemmProblem>,
    choice: Option<BlockingChoice>,
    order: EpilogueFunctions,
    /// The code of each function of the epilogue.
    #[serde(borrow)]
    functions: Vec<&'a [u8]>,
}

impl GemmPlan {
    /// The plan as data.
    pub fn store(&self) -> StoredPlan<'_> {
        let order = self.epilogue().map(Epilogue::order).cloned().unwrap_or_default();
        let functions = self.machine_code().collect();
        StoredPlan { problem: Cow::Borrowed(&self.problem), choice: self.choice, order, functions }
    }

    /// The plan that was stored, for the same CPU. `None` if it is none for this CPU.
    ///
    /// # Safety
    ///
    /// [`GemmPlan::store`] of this very program made the data, of a plan for `cpu`, or the data is equal to
    /// data that it made.
    pub unsafe fn restore(stored: &StoredPlan<'_>, cpu: &CpuTarget) -> Option<GemmPlan> {
        // SAFETY: by the caller's promise `compile` made each function, for the instruction set of `cpu`.
        let function = |bytes: &&[u8]| unsafe { VectorCode::from_compiled(bytes.to_vec(), bytes.len()) };
        let functions = stored.functions.iter().map(function).collect();
        let code = EpilogueCode { order: stored.order.clone(), functions };
        let source = PlanSource { choice: stored.choice.as_ref(), epilogue: EpilogueSource::Code(&code) };
        GemmPlan::planned(&stored.problem, cpu, source)?.ok()
    }
}
