//! The stub of [`GemmPlan`] for architectures without AVX2, where no plan exists.

use std::convert::Infallible;

use crate::choice::{BlockingChoice, ChoiceError};
use crate::machine::CpuTarget;
use crate::problem::GemmProblem;

/// A plan. No value of this type exists on this architecture.
#[derive(Debug)]
pub struct GemmPlan {
    never: Infallible,
}

impl GemmPlan {
    /// Returns `None`: no plan exists on this architecture.
    pub fn new(_: &GemmProblem, _: &CpuTarget) -> Option<GemmPlan> {
        None
    }

    /// Returns `Ok(None)`: no plan exists on this architecture.
    ///
    /// # Errors
    ///
    /// None.
    pub fn with_blocking(
        _: &GemmProblem,
        _: &CpuTarget,
        _: &BlockingChoice,
    ) -> Result<Option<GemmPlan>, ChoiceError> {
        Ok(None)
    }

    /// The tiles and the packing of operands in words.
    pub fn choices(&self) -> String {
        match self.never {}
    }

    /// The choice of packing and block sizes.
    pub fn blocking(&self) -> BlockingChoice {
        match self.never {}
    }

    /// Choices near that of this plan.
    pub fn alternatives(&self, _: &CpuTarget) -> Vec<BlockingChoice> {
        match self.never {}
    }

    /// Bytes of scratch memory that each call needs for itself.
    pub fn scratch_bytes(&self) -> usize {
        match self.never {}
    }

    /// The end of the range that calls divide.
    pub fn extent(&self) -> u64 {
        match self.never {}
    }

    /// The number of iterations that parts should be multiples of.
    pub fn grain(&self) -> u64 {
        match self.never {}
    }

    /// Bytes of memory that generated code takes.
    pub fn code_bytes(&self) -> usize {
        match self.never {}
    }

    /// Computes a part.
    ///
    /// # Safety
    ///
    /// No requirement: no plan exists to call this method on.
    pub unsafe fn run(&self, _: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
        match self.never {}
    }
}
