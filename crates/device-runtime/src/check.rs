//! The parameters of a kernel, as drivers and the runtime need them.

use codegen_core::{Access, KernelAbi, Param};

use crate::error::{DriverError, Result};

/// Access and size in bytes of each memory parameter of a kernel, in order.
pub fn memory_params(abi: &KernelAbi) -> impl Iterator<Item = (Access, usize)> {
    abi.params.iter().filter_map(|param| match *param {
        Param::Node { access, bytes } => Some((access, bytes)),
        Param::MergeBuffer { bytes } => Some((Access::Read, bytes)),
        Param::StaticIndex { .. } => None,
    })
}

/// The number of static indices that a kernel takes.
pub fn static_indices(abi: &KernelAbi) -> usize {
    abi.params.iter().filter(|param| matches!(param, Param::StaticIndex { .. })).count()
}

/// Checks the number of a kernel's arguments; `what` names them in the error.
///
/// # Errors
///
/// [`DriverError::Arity`].
pub fn count(kernel: &str, what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(DriverError::Arity { kernel: kernel.to_owned(), what, expected, found })
}

#[cfg(test)]
mod tests {
    use codegen_core::{Cost, Launch};

    use super::*;

    fn abi(accesses: &[Access]) -> KernelAbi {
        let memory = accesses.iter().map(|&access| Param::Node { access, bytes: 8 });
        let others = [Param::MergeBuffer { bytes: 16 }, Param::StaticIndex { range: 3 }];
        KernelAbi {
            name: "k".to_owned(),
            params: memory.chain(others).collect(),
            launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
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
}
