//! Views: nodes whose values are those of another node at one index of its first axis.
//!
//! A view has no memory: whoever compiles a use of it reads or writes the parent. It is recorded when a program that makes
//! it was accepted, together with that program's other decisions ([`commit_decisions`](crate::commit_decisions)), and
//! stays, so that later programs mean the same element.

use std::fmt;

use crate::decision::Reason;
use crate::node::TensorNode;

/// What a node is a view of: `parent[symbol, ..]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The node that has the memory, unless it is a view itself.
    pub parent: TensorNode,
    /// The name, without `@`, of the static symbol that is the index on the parent's first axis.
    pub symbol: String,
}

impl View {
    /// Why a view has no memory of its own.
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
