//! Errors of legalisation.

use lowered_ir::ir::NodeRef;
use tnode::DType;

/// A capability that the target lacks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegaliseError {
    /// An operation cannot be expressed in operations of the target.
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
        /// The arithmetic that the target would need.
        why: String,
    },
    /// The target cannot store the elements of a node.
    #[error("routine `{routine}`: {target} does not store {dtype}, the type of node {node} \"{name}\"")]
    Storage {
        /// The target's name.
        target: String,
        /// The routine's name.
        routine: String,
        /// The number of the node in the routine.
        node: NodeRef,
        /// The node's name.
        name: String,
        /// The node's element type.
        dtype: DType,
    },
}
