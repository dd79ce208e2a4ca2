//! Facts about later statements that code generators need at a declaration.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, ArrayRef, Expr, LocalId, LoopId, Space, Stmt, Var, walk};

/// Whether nothing reads the initial zeros of a local that is declared before these statements: it has none,
/// or the first statement that mentions it stores into every element that is ever read and reads none. The
/// store must be in a nest whose loops run over the dimensions of the local.
pub fn overwrites_first(rest: &[Stmt], local: LocalId, dims: &[usize], space: Space) -> bool {
    space == Space::Scratch || stores_first(rest, local, dims)
}

fn stores_first(rest: &[Stmt], local: LocalId, dims: &[usize]) -> bool {
    let dims = &read_dims(rest, local, dims);
    let mut loops: Vec<(LoopId, i64)> = Vec::new();
    // The number of outer loops with other statements in their bodies, which might read elements before the
    // store reaches them.
    let mut shared = 0;
    let mut block = rest;
    loop {
        let mut mentioning = block.iter().filter(|stmt| mentions(stmt, local));
        let Some(stmt) = mentioning.next() else { return loops.is_empty() };
        if mentioning.next().is_some() {
            shared = loops.len();
        }
        match stmt {
            Stmt::For { var, lo: 0, hi, body, .. } if let Some(limit @ 1..) = hi.constant() => {
                loops.push((*var, limit));
                block = body;
            }
            Stmt::SetLocal { local: set, index, value } => {
                return *set == local && !reads(value, local) && covers(index, dims, &loops[shared..]);
            }
            _ => return false,
        }
    }
}

/// Whether an index takes every value of the dimensions, each by loops of its own.
fn covers(index: &[Affine], dims: &[usize], loops: &[(LoopId, i64)]) -> bool {
    let once = |var: LoopId| index.iter().filter(|i| i.mentions(var)).count() <= 1;
    index.iter().zip(dims).all(|(i, &dim)| runs_over(i, dim as i64, loops))
        && loops.iter().all(|&(var, _)| once(var))
}

/// Whether an index takes every value of `0..dim`, as a mixed-radix number, and possibly others.
fn runs_over(index: &Affine, dim: i64, loops: &[(LoopId, i64)]) -> bool {
    let digit = |&(var, factor): &(Var, i64)| {
        let &(_, limit) = loops.iter().find(|(id, _)| Var::Loop(*id) == var)?;
        Some((factor, limit))
    };
    let Some(mut digits) = index.terms().iter().map(digit).collect::<Option<Vec<(i64, i64)>>>() else {
        return false;
    };
    digits.sort_unstable();
    let reach = digits
        .into_iter()
        .try_fold(1i64, |reach, (factor, limit)| reach.checked_mul(limit).filter(|_| factor == reach));
    index.offset() == 0 && reach.is_some_and(|reach| reach >= dim)
}

/// The dimensions of the part of a local that statements read, starting at its first element.
fn read_dims(block: &[Stmt], local: LocalId, dims: &[usize]) -> Vec<usize> {
    let mut greatest = BTreeMap::new();
    walk::stmts(block).for_each(|stmt| {
        if let Stmt::For { var, hi, .. } = stmt {
            greatest.insert(Var::Loop(*var), hi.limit.saturating_sub(1));
        }
    });
    let end = |index: &Affine| {
        let terms = index.terms().iter().map(|(var, factor)| {
            let most = greatest.get(var).filter(|_| *factor >= 0)?;
            factor.checked_mul(*most)
        });
        let sum = terms.into_iter().try_fold(index.offset(), |sum, term| sum.checked_add(term?));
        sum.and_then(|last| usize::try_from(last.checked_add(1)?).ok())
    };
    let mut read = vec![0; dims.len()];
    walk::parts_in(block).for_each(|e| {
        if let Expr::GetLocal { local: of, index } = e
            && *of == local
        {
            for ((read, index), &dim) in read.iter_mut().zip(index).zip(dims) {
                *read = end(index).unwrap_or(dim).min(dim).max(*read);
            }
        }
    });
    read
}

fn mentions(stmt: &Stmt, local: LocalId) -> bool {
    let block = std::slice::from_ref(stmt);
    let read = walk::parts_in(block).filter_map(Expr::array);
    walk::stmts(block).filter_map(Stmt::array).chain(read).any(|array| array == ArrayRef::Local(local))
}

fn reads(value: &Expr, local: LocalId) -> bool {
    walk::parts(value).any(|e| e.array() == Some(ArrayRef::Local(local)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    /// Whether the initial zeros of the only local, of 4 by 6 elements, are never read.
    fn is_overwritten(body: &str) -> bool {
        let text = format!(
            "routine @r strict {{ node %0 \"x\" f32[64] on_device declare l0 f32[4, 6] stack {body} }}"
        );
        let routine = lowered_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        lowered_ir::verify::verify(&routine).unwrap_or_else(|e| panic!("{e}"));
        stores_first(&routine.body[1..], LocalId(0), &[4, 6])
    }

    #[test]
    fn nests_that_store_every_element() {
        let read = "for i8 in 0..4 { %0[i8] := l0[i8, i8] }";
        let all = "for i0 in 0..4 { for i1 in 0..2 { for i2 in 0..3 { l0[i0, 3*i1 + i2] := %0[i0] } } }";
        assert!(is_overwritten(&format!("{all} {read}")));
        assert!(is_overwritten(&format!("for i9 in 0..5 {{ {all} {read} }}")));
        assert!(!is_overwritten(&format!("{read} {all}")));
        // Elements outside of the stored part are read in one case only.
        let some = "for i0 in 0..4 { for i1 in 0..5 { l0[i0, i1] := %0[i0] } }";
        let last = read.replace("l0[i8, i8]", "l0[i8, i8 + 2]");
        assert!(is_overwritten(&format!("{some} {read}")) && is_overwritten(&format!("{all} {last}")));
        assert!(!is_overwritten(&format!("{some} {last}")));
        // In order: the last column, every other column, one column per iteration.
        assert!(!is_overwritten(&format!("{} {read}", all.replace("0..3", "0..2"))));
        assert!(!is_overwritten(&format!("{} {last}", all.replace("3*i1 + i2", "2*i1 + i2"))));
        let each = "for i1 in 0..6 { for i0 in 0..4 { l0[i0, i1] := %0[i0] } %0[i1] := l0[0, 5] }";
        assert!(!is_overwritten(each));
    }
}
