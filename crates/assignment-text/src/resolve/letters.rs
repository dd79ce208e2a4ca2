//! The letters of a statement, in order of mention.

use crate::ast::{Access, Concat, Index};
use crate::linear::Atom;
use crate::tree::Letter;
use assignments::ByteRange;

/// Enters the new letters of an access.
pub(super) fn enter_letters(access: &Access, letters: &mut Vec<Letter>) {
    for index in &access.indices {
        match index {
            Index::Linear(index) => index.each_atom(&mut |atom, span| {
                if let Atom::Letter(name) = atom {
                    enter_letter(name, span, Vec::new(), letters);
                }
            }),
            Index::Row(_) => {}
            Index::Concat(concat) => {
                let part = |(name, span): &(String, ByteRange)| enter_letter(name, span, Vec::new(), letters);
                let parts = concat.letters.iter().map(part).collect();
                enter_letter(&concat_name(concat), &concat.span, parts, letters);
            }
            Index::Computed(expr) => expr.each_access(&mut |access| enter_letters(access, letters)),
        }
    }
}

/// The position of a letter, which is entered if it is new.
pub(super) fn enter_letter(
    name: &str,
    span: &ByteRange,
    parts: Vec<usize>,
    letters: &mut Vec<Letter>,
) -> usize {
    let known = letters.iter().position(|letter| letter.name == name);
    known.unwrap_or_else(|| {
        letters.push(Letter {
            name: name.to_owned(),
            span: span.clone(),
            declared: None,
            size: None,
            parts,
            node: None,
        });
        letters.len() - 1
    })
}

/// The name of a concatenated axis. No letter has such a name.
pub(super) fn concat_name(concat: &Concat) -> String {
    concat.letters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("^")
}
