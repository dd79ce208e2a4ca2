//! Errors of legalization.

use lowered_ir::ir::NodeRef;
use tnode::DType;

/// The result of a part of legalization.
pub(super) type Result<T, E = LegalizeError> = std::result::Result<T, E>;

/// A capability that the target lacks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LegalizeError {
    /// An operation cannot be expressed in operations of the target, for want of the arithmetic that `why`
    /// names.
    #[error("routine `{routine}`: {target} does not support `{op}` on {dtype}: {why}")]
    Unsupported { target: String, routine: String, op: String, dtype: DType, why: String },
    /// The target cannot store the elements of a node.
    #[error("routine `{routine}`: {target} does not store {dtype}, the type of node {node} \"{name}\"")]
    Storage { target: String, routine: String, node: NodeRef, name: String, dtype: DType },
}
