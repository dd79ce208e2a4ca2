//! Operators as the list has them.

use super::context::{Lowered, NodeContext};
use crate::ir::NodeOperator;

/// An operator from one version of its operator set on.
pub(super) struct Operator {
    pub(super) name: &'static str,
    pub(super) domain: &'static str,
    /// The first version of the operator set with this meaning.
    pub(super) since: i64,
    pub(super) lower: fn(&mut NodeContext<'_>) -> Lowered,
    /// Whether two evaluations may differ.
    pub(super) is_random: bool,
    /// Whether operands or results may be sequences.
    pub(super) has_sequences: bool,
    /// Whether arrays may have sizes that each run gives. The statements of the others have numbers that
    /// follow from shapes.
    pub(super) takes_sizes: bool,
}

/// The domain of operators that no file names.
const INTERNAL: &str = "internal";

impl Operator {
    /// The operator with arrays whose sizes each run gives.
    pub(super) const fn sized(self) -> Self {
        Self { takes_sizes: true, ..self }
    }

    /// Whether no file names it: a load puts it in place of others.
    pub(super) fn is_internal(&self) -> bool {
        self.domain == INTERNAL
    }

    /// The operator at a position of the list.
    pub(super) fn numbered(&self, number: usize) -> NodeOperator {
        let Operator { name, is_random, has_sequences, .. } = *self;
        NodeOperator { number, name, is_random, has_sequences }
    }
}

/// An operator that no file names, with the name of the one that it replaces.
pub(super) const fn internal_op(name: &'static str, lower: fn(&mut NodeContext<'_>) -> Lowered) -> Operator {
    Operator { domain: INTERNAL, ..op(name, 1, lower) }
}

/// An operator of `ai.onnx`.
pub(super) const fn op(
    name: &'static str,
    since: i64,
    lower: fn(&mut NodeContext<'_>) -> Lowered,
) -> Operator {
    Operator { name, domain: "", since, lower, is_random: false, has_sequences: false, takes_sizes: false }
}

/// An operator of `ai.onnx` whose operands or results may be sequences.
pub(super) const fn list_op(
    name: &'static str,
    since: i64,
    lower: fn(&mut NodeContext<'_>) -> Lowered,
) -> Operator {
    Operator { has_sequences: true, ..op(name, since, lower) }
}

/// Operators with arrays whose sizes each run gives.
pub(super) const fn all_sized<const N: usize>(mut operators: [Operator; N]) -> [Operator; N] {
    let mut at = 0;
    while at < N {
        operators[at].takes_sizes = true;
        at += 1;
    }
    operators
}
