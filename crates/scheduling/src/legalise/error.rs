//! Why a routine cannot be made legal for a target.

use lowered_ir::ir::NodeRef;
use tnode::DType;

/// The target lacks what an operation or a node needs.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegaliseError {
    /// An operation has no steps that the target can do.
    #[error("routine `{routine}`: {target} does not support `{op}` on {dtype}: {why}")]
    Unsupported {
        /// The target's name.
        target: String,
        /// The routine's name.
        routine: String,
        /// The operation, as the text form writes it.
        op: String,
        /// The type it is applied to.
        dtype: DType,
        /// What the target would need.
        why: String,
    },
    /// The target cannot hold a node's elements.
    #[error("routine `{routine}`: {target} does not store {dtype}, the type of node {node} \"{name}\"")]
    Storage {
        /// The target's name.
        target: String,
        /// The routine's name.
        routine: String,
        /// Which node.
        node: NodeRef,
        /// Its name.
        name: String,
        /// Its element type.
        dtype: DType,
    },
}
