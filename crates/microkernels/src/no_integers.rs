//! The stand-in for products of 8-bit integers on CPUs without microkernels for them: no plan has one.

use std::convert::Infallible;
use std::fmt;

use crate::epilogue::Epilogue;
use crate::plan::CheckedProblem;

/// A product that cannot be made.
#[derive(Debug)]
pub(crate) struct IntegerGemm {
    none: Infallible,
    pub(crate) checked: CheckedProblem,
    pub(crate) epilogue: Option<Epilogue>,
}

impl IntegerGemm {
    pub(crate) fn block(&self) -> [usize; 3] {
        match self.none {}
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        match self.none {}
    }
}

impl fmt::Display for IntegerGemm {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.none {}
    }
}
