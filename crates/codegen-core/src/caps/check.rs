//! Contradictions in the capabilities of a target.

use tnode::DType;

use super::{Caps, DTypeSet};

/// A contradiction in the capabilities that a target claims.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CapsError {
    /// The target has no name, which messages and cache keys need.
    #[error("a target has no name, expected text in `Caps::target`")]
    NoName,
    /// Computed indices have a type that is neither `i32` nor `i64`.
    #[error("target `{target}`: `Caps::index` is {found}, expected i32 or i64")]
    IndexType { target: String, found: DType },
    /// A set lacks a type that another capability needs.
    #[error("target `{target}`: {dtype} is in `Caps::{of}`, expected it in `Caps::{missing_in}` as well")]
    MissingType { target: String, dtype: DType, of: &'static str, missing_in: &'static str },
    /// The target has no arithmetic on `f32`.
    #[error("target `{target}`: `Caps::arithmetic` lacks f32, with which narrower floats are emulated")]
    NoF32 { target: String },
    /// A number is outside of its range.
    #[error("target `{target}`: `{field}` is {found}, expected {expected}")]
    Number { target: String, field: &'static str, found: usize, expected: &'static str },
}

impl Caps {
    /// Checks that the capabilities do not contradict one another.
    ///
    /// # Errors
    ///
    /// The first contradiction that it finds.
    pub fn check(&self) -> Result<(), CapsError> {
        if self.target.is_empty() {
            return Err(CapsError::NoName);
        }
        self.check_types()?;
        self.check_numbers()?;
        self.check_workgroups()
    }

    fn check_types(&self) -> Result<(), CapsError> {
        let target = || self.target.clone();
        if !matches!(self.index, DType::I32 | DType::I64) {
            return Err(CapsError::IndexType { target: target(), found: self.index });
        }
        if !self.arithmetic.contains(DType::F32) {
            return Err(CapsError::NoF32 { target: target() });
        }
        let index = DTypeSet::EMPTY.with(self.index);
        for (of, needed, missing_in, set) in [
            ("index", index, "arithmetic", self.arithmetic),
            ("arithmetic", self.arithmetic, "storage", self.storage),
            ("conversions", self.conversions, "storage", self.storage),
            ("contractions", self.contractions, "storage", self.storage),
        ] {
            if let Some(dtype) = DType::ALL.into_iter().find(|&d| needed.contains(d) && !set.contains(d)) {
                return Err(CapsError::MissingType { target: target(), dtype, of, missing_in });
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), CapsError> {
        let power = "a power of two";
        let is_power = |n: usize| n.is_power_of_two();
        self.number("Caps::threads", self.threads, self.threads > 0, "at least 1")?;
        self.number("Caps::alignment", self.alignment, is_power(self.alignment), power)?;
        let vectors = self.vector_bytes;
        self.number("Caps::vector_bytes", vectors, vectors == 0 || is_power(vectors), "0 or a power of two")?;
        let registers = self.vector_registers;
        let has_some = vectors == 0 || registers > 0;
        self.number("Caps::vector_registers", registers, has_some, "at least 1 for a target with vectors")
    }

    fn check_workgroups(&self) -> Result<(), CapsError> {
        let Some(gpu) = self.workgroups else { return Ok(()) };
        let (threads, subgroup) = (gpu.threads as usize, gpu.subgroup_size as usize);
        self.number("Workgroups::threads", threads, threads > 0, "at least 1")?;
        let fits = subgroup.is_power_of_two() && subgroup <= threads;
        let expected = "a power of two, at most the threads of a workgroup";
        self.number("Workgroups::subgroup_size", subgroup, fits, expected)?;
        let bytes = gpu.element_bytes;
        self.number("Workgroups::element_bytes", bytes, bytes.is_power_of_two(), "a power of two")
    }

    fn number(
        &self,
        field: &'static str,
        found: usize,
        is_valid: bool,
        expected: &'static str,
    ) -> Result<(), CapsError> {
        let target = || self.target.clone();
        if is_valid { Ok(()) } else { Err(CapsError::Number { target: target(), field, found, expected }) }
    }
}

#[cfg(test)]
mod tests {
    use tnode::DType;

    use crate::{Caps, DTypeSet, Workgroups};

    fn without(dtype: DType) -> DTypeSet {
        DType::ALL.into_iter().filter(|&d| d != dtype).collect()
    }

    #[test]
    fn constructors_do_not_contradict_themselves() {
        assert_eq!(Caps::host("host").check(), Ok(()));
        assert_eq!(Caps::gpu("gpu", Workgroups::new(256, 16 << 10)).check(), Ok(()));
    }

    #[test]
    fn every_contradiction_is_named() {
        let host = || Caps::host("t");
        let gpu = |gpu: Workgroups| Caps::gpu("t", gpu);
        let limits = Workgroups::new(256, 16 << 10);
        for (caps, expected) in [
            (Caps::host(""), "a target has no name"),
            (Caps { index: DType::U8, ..host() }, "`Caps::index` is u8, expected i32 or i64"),
            (
                Caps { arithmetic: DTypeSet::EMPTY, ..host() },
                "`Caps::arithmetic` lacks f32, with which narrower floats are emulated",
            ),
            (
                Caps { arithmetic: without(DType::I64), ..host() },
                "i64 is in `Caps::index`, expected it in `Caps::arithmetic` as well",
            ),
            (
                Caps { storage: without(DType::F64), ..host() },
                "f64 is in `Caps::arithmetic`, expected it in `Caps::storage` as well",
            ),
            (
                Caps {
                    storage: without(DType::F16),
                    contractions: DTypeSet::EMPTY.with(DType::F16),
                    ..host()
                },
                "f16 is in `Caps::contractions`, expected it in `Caps::storage` as well",
            ),
            (Caps { threads: 0, ..host() }, "`Caps::threads` is 0, expected at least 1"),
            (Caps { alignment: 48, ..host() }, "`Caps::alignment` is 48, expected a power of two"),
            (Caps { vector_bytes: 24, ..host() }, "`Caps::vector_bytes` is 24, expected 0 or a power of two"),
            (
                Caps { vector_bytes: 32, ..host() },
                "`Caps::vector_registers` is 0, expected at least 1 for a target with vectors",
            ),
            (gpu(Workgroups { threads: 0, ..limits }), "`Workgroups::threads` is 0, expected at least 1"),
            (
                gpu(Workgroups { subgroup_size: 512, ..limits }),
                "`Workgroups::subgroup_size` is 512, expected a power of two, at most the threads",
            ),
            (
                gpu(Workgroups { element_bytes: 0, ..limits }),
                "`Workgroups::element_bytes` is 0, expected a power of two",
            ),
        ] {
            let error = caps.check().expect_err(expected).to_string();
            assert!(error.contains(expected), "expected {expected}, found {error}");
        }
    }
}
