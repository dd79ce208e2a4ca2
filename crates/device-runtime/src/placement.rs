//! Decides for a link whether the context, the host, or both have memory for a node.
//!
//! A decision may settle a memory mode that is open. It is made on a copy of the mode, which the link commits
//! once nothing can fail any more.

use tnode::{DEFAULT_STACK_THRESHOLD_BYTES, ForceCtx, HostArray, MemoryMode, ModeState, Reason, TensorNode};

use crate::{context::Context, error::RunError};

/// Returns whether the context must have memory for a node: always, unless the device can read the host's
/// memory. Also returns the node's mode, if the decision settled it. A node without a host array is settled
/// to be on the device, even if the device could have used host memory.
pub(crate) fn is_in_context(
    context: &Context,
    node: &TensorNode,
) -> Result<(bool, Option<ModeState>), RunError> {
    let before = node.mode();
    let is_decided = matches!(
        before.mode(),
        Some(MemoryMode::Materialized | MemoryMode::OnDevice(_) | MemoryMode::Hosted(_))
    );
    if !is_decided {
        return Ok((true, None));
    }
    let use_host_memory = context.host().is_some_and(|host| host.options().use_host_memory);
    let mut mode = before.clone();
    let is_kept = mode.is_in_context_force(use_host_memory, &forced(node)?);
    Ok((is_kept, (mode != before).then_some(mode)))
}

/// Makes host arrays for the written nodes that are hosted and have no array in the context's host. An open
/// mode stays open.
pub(crate) fn arrays_of_outputs(
    context: &Context,
    written: &[TensorNode],
) -> Result<Vec<(TensorNode, HostArray)>, RunError> {
    let mut arrays = Vec::new();
    for node in written.iter().filter(|node| context.lacks_host_array(node)) {
        let mut mode = node.mode();
        if mode.mode().is_some() && mode.is_hosted_force(&forced(node)?) {
            let (dtype, dims) = (node.dtype(), node.dims_without_padding()?);
            let array = match node.padding() {
                Some(padding) => HostArray::zeros_padded(dtype, dims, padding.clone())?,
                None => HostArray::zeros(dtype, dims)?,
            };
            arrays.push((node.clone(), array));
        }
    }
    Ok(arrays)
}

/// The reason and the limits with which a link settles a node's mode.
fn forced(node: &TensorNode) -> Result<ForceCtx, RunError> {
    Ok(node.force_ctx(DEFAULT_STACK_THRESHOLD_BYTES, Reason::new("a link gives it memory"))?)
}
