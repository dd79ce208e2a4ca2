//! Comparison of statements without the texts of their comments.
//!
//! Comments name nodes of the program, so the steps of an unrolled loop differ in them and in nothing else.
//! No codegen reads the text of a comment. The place of a comment counts, because it may separate statements
//! that a codegen would otherwise compile together.

use std::hash::{Hash, Hasher};

use lowered_ir::ir::Stmt;

/// Whether two blocks differ in nothing but the texts of comments.
pub(crate) fn is_same_but_remarks(one: &[Stmt], other: &[Stmt]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
}

fn is_same(one: &Stmt, other: &Stmt) -> bool {
    match (one, other) {
        (Stmt::Comment(_), Stmt::Comment(_)) => true,
        (
            Stmt::For { var, lo, hi, kind, body },
            Stmt::For { var: other_var, lo: other_lo, hi: other_hi, kind: other_kind, body: other_body },
        ) => {
            (var, lo, hi, kind) == (other_var, other_lo, other_hi, other_kind)
                && is_same_but_remarks(body, other_body)
        }
        _ => one == other,
    }
}

/// Hashes a block so that blocks which differ in the texts of comments only have equal hashes.
pub(crate) fn hash_without_remarks(block: &[Stmt], hasher: &mut impl Hasher) {
    block.len().hash(hasher);
    for stmt in block {
        std::mem::discriminant(stmt).hash(hasher);
        match stmt {
            Stmt::Comment(_) => {}
            Stmt::For { var, lo, hi, kind, body } => {
                (var, lo, hi, kind).hash(hasher);
                hash_without_remarks(body, hasher);
            }
            _ => stmt.hash(hasher),
        }
    }
}
