//! What drivers check of what they are handed, which the [contract](crate::Driver) leaves to them.

use std::ops::Range;

use codegen_core::{Access, KernelAbi, Param};
use tnode::HostArray;

use crate::error::DriverError;

/// Access and size in bytes of each memory parameter of a kernel, in order.
pub fn memory_params(abi: &KernelAbi) -> impl Iterator<Item = (Access, usize)> {
    abi.params.iter().filter_map(|param| match *param {
        Param::Node { access, bytes } => Some((access, bytes)),
        Param::MergeBuffer { bytes } => Some((Access::Read, bytes)),
        Param::StaticIndex { .. } => None,
    })
}

/// How many static indices a kernel takes.
pub fn static_indices(abi: &KernelAbi) -> usize {
    abi.params.iter().filter(|param| matches!(param, Param::StaticIndex { .. })).count()
}

/// Whether a kernel got as many as it takes; `what` says of what.
///
/// # Errors
///
/// [`DriverError::Arity`].
pub fn count(kernel: &str, what: &'static str, expected: usize, found: usize) -> Result<(), DriverError> {
    if expected == found {
        return Ok(());
    }
    Err(DriverError::Arity { kernel: kernel.to_owned(), what, expected, found })
}

/// Whether no memory that a kernel writes is another parameter's too. `meet` says whether two memory parameters have bytes in
/// common, by their positions.
///
/// # Errors
///
/// [`DriverError::Overlap`].
pub fn overlap(abi: &KernelAbi, meet: impl Fn(usize, usize) -> bool) -> Result<(), DriverError> {
    let writes: Vec<bool> = memory_params(abi).map(|(access, _)| access != Access::Read).collect();
    for second in 0..writes.len() {
        for first in 0..second {
            if (writes[first] || writes[second]) && meet(first, second) {
                return Err(DriverError::Overlap { kernel: abi.name.clone(), first, second });
            }
        }
    }
    Ok(())
}

/// The bytes `offset..+bytes` of a host array, if they lie within.
///
/// # Errors
///
/// [`DriverError::OutOfBounds`].
pub fn array_range(array: &HostArray, offset: usize, bytes: usize) -> Result<Range<usize>, DriverError> {
    let size = array.size_bytes();
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(offset..end),
        _ => Err(DriverError::OutOfBounds { what: "host array".to_owned(), offset, bytes, size }),
    }
}

#[cfg(test)]
mod tests {
    use codegen_core::{Cost, Launch};
    use tnode::DType;

    use super::*;

    fn abi(accesses: &[Access]) -> KernelAbi {
        let memory = accesses.iter().map(|&access| Param::Node { access, bytes: 8 });
        let others = [Param::MergeBuffer { bytes: 16 }, Param::StaticIndex { range: 3 }];
        KernelAbi {
            name: "k".to_owned(),
            params: memory.chain(others).collect(),
            launch: Launch { extent: 1, grain: 1, threads: 1 },
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        }
    }

    #[test]
    fn parameters_are_memory_or_static_indices() {
        let abi = abi(&[Access::Write]);
        let memory: Vec<_> = memory_params(&abi).collect();
        assert_eq!(memory, [(Access::Write, 8), (Access::Read, 16)]);
        assert_eq!(static_indices(&abi), 1);
    }

    #[test]
    fn written_memory_is_nobody_elses() {
        let all = |_, _| true;
        let places = |abi: &KernelAbi| match overlap(abi, all) {
            Err(DriverError::Overlap { first, second, .. }) => Some((first, second)),
            _ => None,
        };
        assert_eq!(places(&abi(&[Access::Read])), None, "reads may overlap, of the merge buffer too");
        assert_eq!(places(&abi(&[Access::Read, Access::WritePart])), Some((0, 1)));
        assert_eq!(places(&abi(&[Access::ReadWrite])), Some((0, 1)));
        assert_eq!(overlap(&abi(&[Access::Write; 3]), |_, _| false), Ok(()));
        let last = |first, second| (first, second) == (1, 2);
        assert!(overlap(&abi(&[Access::Read, Access::Write]), last).is_err());
    }

    #[test]
    fn ranges_lie_within_their_array() {
        let array = HostArray::zeros(DType::U8, [5]).unwrap();
        assert_eq!(array_range(&array, 2, 3), Ok(2..5));
        assert!(array_range(&array, 2, 4).is_err() && array_range(&array, 1, usize::MAX).is_err());
    }
}
