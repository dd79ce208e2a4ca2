//! Views: nodes that are a slice of another node at one index of its first axis.
//!
//! A view has no memory, so code that uses it accesses the parent. A view is recorded when a program that
//! makes it is accepted, together with that program's other decisions
//! ([`commit_decisions`](crate::commit_decisions)). It is permanent, so that later programs refer to the same
//! element.

use std::fmt;

use crate::decision::Reason;
use crate::node::TensorNode;

/// The slice `parent[symbol, ..]` that a view stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The node whose slice this is; it may be a view itself.
    pub parent: TensorNode,
    /// The name, without `@`, of the static symbol that is the index on the parent's first axis.
    pub symbol: String,
}

impl View {
    /// The reason why a view is virtual.
    #[track_caller]
    pub(crate) fn reason(&self) -> Reason {
        Reason::new(format!("it is {self}"))
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a view of {} at @{}", self.parent.name(), self.symbol)
    }
}
