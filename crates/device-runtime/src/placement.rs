//! Questions of a link about the memory modes of nodes: who has memory for a node, the context, the host, or both.
//!
//! The questions settle modes that are open, on copies, which the link commits when nothing can fail any more.

use tnode::{DEFAULT_STACK_THRESHOLD_BYTES, ForceCtx, HostArray, MemoryMode, ModeState, Reason, TensorNode};

use crate::{context::Context, error::Error};

/// Whether the context must hold memory for a node, or the device may read the host's; and the node's mode, if that
/// settled it: a node without host array stays on a device that could have used the host's memory.
pub(crate) fn is_in_context(
    context: &Context,
    node: &TensorNode,
) -> Result<(bool, Option<ModeState>), Error> {
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

/// Arrays for written nodes that are hosted and of which the context's host has none. A mode that is open stays open.
pub(crate) fn arrays_of_outputs(
    context: &Context,
    written: &[TensorNode],
) -> Result<Vec<(TensorNode, HostArray)>, Error> {
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

/// For questions about a mode that settle it.
fn forced(node: &TensorNode) -> Result<ForceCtx, Error> {
    Ok(node.force_ctx(DEFAULT_STACK_THRESHOLD_BYTES, Reason::new("a link gives it memory"))?)
}
