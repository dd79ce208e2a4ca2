//! A node or a local, whichever a statement accesses.

use super::{Expr, Indices, LocalId, NodeRef, Stmt};

/// A node or a local.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArrayRef {
    /// A node.
    Node(NodeRef),
    /// A local.
    Local(LocalId),
}

impl ArrayRef {
    /// The value of an element.
    pub fn read(self, index: Indices) -> Expr {
        match self {
            ArrayRef::Node(node) => Expr::Get { node, index },
            ArrayRef::Local(local) => Expr::GetLocal { local, index },
        }
    }

    /// Stores into an element.
    pub fn store(self, index: Indices, value: Expr) -> Stmt {
        match self {
            ArrayRef::Node(node) => Stmt::Set { node, index, value },
            ArrayRef::Local(local) => Stmt::SetLocal { local, index, value },
        }
    }

    /// The node, unless it is a local.
    pub fn node(self) -> Option<NodeRef> {
        match self {
            ArrayRef::Node(node) => Some(node),
            ArrayRef::Local(_) => None,
        }
    }

    /// The local, unless it is a node.
    pub fn local(self) -> Option<LocalId> {
        match self {
            ArrayRef::Node(_) => None,
            ArrayRef::Local(local) => Some(local),
        }
    }
}

impl Expr {
    /// The array of which the outermost operation reads an element; the merge buffer is none.
    pub fn array(&self) -> Option<ArrayRef> {
        match self {
            Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => {
                Some(ArrayRef::Node(*node))
            }
            Expr::GetLocal { local, .. } => Some(ArrayRef::Local(*local)),
            _ => None,
        }
    }

    /// The array and the index of a read that has no guard and no computed index.
    pub fn element(&self) -> Option<(ArrayRef, &Indices)> {
        match self {
            Expr::Get { index, .. } | Expr::GetLocal { index, .. } => Some((self.array()?, index)),
            _ => None,
        }
    }
}

impl Stmt {
    /// The array into which the statement itself stores.
    pub fn array(&self) -> Option<ArrayRef> {
        match self {
            Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
                Some(ArrayRef::Node(*node))
            }
            Stmt::SetLocal { local, .. } => Some(ArrayRef::Local(*local)),
            Stmt::For { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => None,
        }
    }

    /// The array, the index and the value of a store that has no computed index.
    pub fn store(&self) -> Option<(ArrayRef, &Indices, &Expr)> {
        match self {
            Stmt::Set { index, value, .. } | Stmt::SetLocal { index, value, .. } => {
                Some((self.array()?, index, value))
            }
            _ => None,
        }
    }
}
