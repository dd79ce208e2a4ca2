//! Questions about single nodes: lifetime, size, guarded reads.

use lowered_ir::ir::{Expr, NodeDecl, NodeRef, Stmt, walk};
use tnode::MemoryMode;

/// Whether a node lives for one run only.
pub(crate) fn is_local(node: &NodeDecl) -> bool {
    node.mode.mode() == Some(MemoryMode::Local)
}

/// The size of a node in bytes; `usize::MAX` if the node is too large to address, which the verifier rejects.
pub(crate) fn node_bytes(node: &NodeDecl) -> usize {
    node.size_bytes().unwrap_or(usize::MAX)
}

/// Whether a guarded read accesses the node.
pub(crate) fn reads_guarded(block: &[Stmt], node: NodeRef) -> bool {
    walk::parts_in(block).any(|e| matches!(e, Expr::GetGuarded { node: read, .. } if *read == node))
}

/// Whether a guarded read or a read of the merge buffer accesses the node. Locals have neither.
pub(crate) fn is_guarded(block: &[Stmt], node: NodeRef) -> bool {
    let merges = |e: &Expr| matches!(e, Expr::GetMerge { node: read, .. } if *read == node);
    reads_guarded(block, node) || walk::parts_in(block).any(merges)
}
