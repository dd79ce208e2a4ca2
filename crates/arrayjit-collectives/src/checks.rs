//! The checks and names that groups of every kind share.

use arrayjit::{DType, RunError, TensorNode};

use crate::{
    error::{CollectiveError, Result},
    reduce,
};

/// The names of nodes; of many, the first ones and their number.
pub(crate) fn short_names(nodes: &[TensorNode]) -> String {
    const SHOWN: usize = 3;
    match nodes.len().checked_sub(SHOWN) {
        Some(others @ 2..) => format!("{} and {others} others", names(&nodes[..SHOWN])),
        _ => names(nodes),
    }
}

pub(crate) fn names(nodes: &[TensorNode]) -> String {
    // Labels, because names have numbers that tell the nodes of one process apart.
    let name = |node: &TensorNode| match node.label() {
        [grad, of @ ..] if grad == "grad" => format!("{}.grad", of.join(".")),
        label => label.join("."),
    };
    nodes.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The element type of nodes that are reduced together.
pub(crate) fn common_type(nodes: &[TensorNode]) -> Result<DType> {
    let Some(first) = nodes.first() else { return Ok(DType::F32) };
    let dtype = first.dtype();
    if !reduce::is_supported(dtype) {
        return Err(CollectiveError::Type { node: first.name(), dtype });
    }
    match nodes.iter().find(|node| node.dtype() != dtype) {
        Some(second) => Err(CollectiveError::MixedTypes {
            first: first.name(),
            first_type: dtype,
            second: second.name(),
            second_type: second.dtype(),
        }),
        None => Ok(dtype),
    }
}

/// Checks that a node has the bytes of one part for each rank.
pub(crate) fn check_parts(whole: &TensorNode, part: &TensorNode, size: usize) -> Result<()> {
    let bytes = |node: &TensorNode| -> Result<usize> {
        let dims = node.dims().map_err(RunError::from)?;
        Ok(dims.iter().product::<usize>() * node.dtype().size_bytes())
    };
    let (found, part_bytes) = (bytes(whole)?, bytes(part)?);
    if part_bytes.checked_mul(size) == Some(found) {
        return Ok(());
    }
    let (whole, part) = (whole.name(), part.name());
    Err(CollectiveError::Parts { whole, found, size, part, part_bytes })
}

/// Checks that a root is a rank.
pub(crate) fn check_root(root: usize, size: usize) -> Result<()> {
    if root < size { Ok(()) } else { Err(CollectiveError::Root { root, size }) }
}

/// Checks that there are at most as many parts as ranks.
pub(crate) fn check_part_count(parts: usize, size: usize) -> Result<()> {
    if parts <= size { Ok(()) } else { Err(CollectiveError::TooManyParts { parts, size }) }
}

/// The size of a digest.
pub(crate) const DIGEST_BYTES: usize = 8;

/// Checks that the digests of all ranks are equal; `names` are those of the nodes.
pub(crate) fn check_digests(all: &[u8], names: &str) -> Result<()> {
    let (first, others) = all.split_at(DIGEST_BYTES);
    match others.chunks(DIGEST_BYTES).position(|other| other != first) {
        Some(at) => Err(CollectiveError::Diverged { what: names.to_owned(), rank: at + 1 }),
        None => Ok(()),
    }
}
