//! Constructs that are only printed.

use crate::ast::{Access, Expr, ExprKind};
use assignments::ByteRange;

/// The span of printed constructs, which stand in no text.
pub(super) const NOWHERE: ByteRange = 0..0;

/// A node without indices.
pub(super) fn access(name: &str) -> Access {
    let (name, family, indices) = (name.to_owned(), Vec::new(), Vec::new());
    Access { name, name_span: NOWHERE, family, merge: false, indices, span: NOWHERE }
}

/// An expression that is only printed, so its depth does not matter.
pub(super) fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: NOWHERE, depth: 0 }
}
