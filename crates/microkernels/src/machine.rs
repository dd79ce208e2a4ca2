//! The CPU that plans are made for: its vector instructions and the sizes of its caches.

use serde::{Deserialize, Serialize};
use vector_asm::{Isa, LaneType};

use crate::caches::{caches, l3_is_far};
use crate::dot::DotInstructions;
use crate::problem::GemmProblem;

/// A CPU, as far as plans depend on it. It affects only the speed of a plan, never its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuTarget {
    /// The instruction set of plans and of their epilogues. Without one there are no plans.
    pub isa: Option<Isa>,
    /// The instruction set of plans for floats where an operand has bounds, as in convolutions; `None` for
    /// that of the others.
    pub masked_isa: Option<Isa>,
    /// The instructions for products of 8-bit integers; `None` for the fastest with vectors of `isa`.
    pub dot: Option<DotInstructions>,
    /// Bytes of a core's L1 data cache.
    pub l1_bytes: usize,
    /// Bytes of a core's L2 cache.
    pub l2_bytes: usize,
    /// Bytes of the L3 cache, which cores share.
    pub l3_bytes: usize,
    /// Whether the L3 cache is so far from a core that reading it in place takes longer than packing: true of
    /// Intel's servers, whose cores share it through a mesh.
    pub l3_is_far: bool,
    /// Threads that can run at once.
    pub threads: usize,
}

impl CpuTarget {
    /// The instruction set of plans for a problem.
    pub(crate) fn isa_for(&self, problem: &GemmProblem) -> Option<Isa> {
        let has_bounds = [&problem.a, &problem.b].iter().any(|operand| !operand.bounds.is_empty());
        let masked = self.masked_isa.filter(|_| has_bounds && problem.element != LaneType::I32);
        masked.or(self.isa)
    }

    /// The CPU that this runs on, with the instruction set that [`Isa::detect`] chooses for all plans.
    pub fn detect() -> CpuTarget {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let [l1_bytes, l2_bytes, l3_bytes] = caches();
        let l3_is_far = l3_is_far();
        CpuTarget {
            isa: Isa::detect(),
            masked_isa: None,
            dot: None,
            l1_bytes,
            l2_bytes,
            l3_bytes,
            l3_is_far,
            threads,
        }
    }
}
