//! Plans on architectures without AVX2: there are none.

use std::convert::Infallible;

use crate::contraction::Contraction;
use crate::machine::Machine;

/// How to compute a contraction. There is no plan on this architecture.
#[derive(Debug)]
pub struct Plan {
    never: Infallible,
}

impl Plan {
    /// `None`: nothing is planned on this architecture.
    pub fn new(_: &Contraction, _: &Machine) -> Option<Plan> {
        None
    }

    /// Bytes of scratch memory that each call needs for itself.
    pub fn scratch_bytes(&self) -> usize {
        match self.never {}
    }

    /// The end of the range that all parts make up.
    pub fn extent(&self) -> u64 {
        match self.never {}
    }

    /// What parts should be multiples of.
    pub fn grain(&self) -> u64 {
        match self.never {}
    }

    /// How many bytes of memory the plan's own code takes.
    pub fn code_bytes(&self) -> usize {
        match self.never {}
    }

    /// Computes a part.
    ///
    /// # Safety
    ///
    /// None is needed: there is no plan to call it on.
    pub unsafe fn run(&self, _: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
        match self.never {}
    }
}
