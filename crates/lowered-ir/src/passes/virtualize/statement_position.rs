//! Positions of statements within a top-level statement, and their order of execution.

use crate::ir::{Affine, LoopId, Stmt};

/// The position of a statement within an outermost statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatementPosition {
    /// For each loop around, outermost first, the position in its body of the next loop around; in the body
    /// of the innermost loop, the position of the statement.
    pub(super) path: Vec<usize>,
    /// The variables of the loops around, outermost first.
    pub(super) loops: Vec<LoopId>,
}

/// Calls `f` on every statement inside `stmt`, itself included, with its place.
pub(super) fn each(stmt: &Stmt, f: &mut impl FnMut(&StatementPosition, &Stmt)) {
    inner(stmt, &mut StatementPosition::default(), f);
}

fn inner(stmt: &Stmt, place: &mut StatementPosition, f: &mut impl FnMut(&StatementPosition, &Stmt)) {
    f(place, stmt);
    if let Stmt::For { var, body, .. } = stmt {
        place.loops.push(*var);
        for (at, stmt) in body.iter().enumerate() {
            place.path.push(at);
            inner(stmt, place, f);
            place.path.pop();
        }
        place.loops.pop();
    }
}

/// Whether the statement at `setter`, in the iteration given by `value`, has completed when the one at `user`
/// runs.
///
/// For each loop around both, outermost first, the setter's iteration is a constant number of iterations
/// before the user's. The first loop where that number is not 0 decides; where it is 0 in all of them, the
/// order of the text does.
pub(super) fn is_done(
    setter: &StatementPosition,
    user: &StatementPosition,
    value: impl Fn(LoopId) -> Option<Affine>,
) -> bool {
    for (depth, &var) in setter.loops.iter().enumerate() {
        if depth > 0 && setter.path[depth - 1] != user.path[depth - 1] {
            return setter.path[depth - 1] < user.path[depth - 1];
        }
        if user.loops.get(depth) != Some(&var) {
            return false;
        }
        let behind = value(var).and_then(|value| value.plus(&Affine::term(var, -1)).as_constant());
        match behind {
            Some(0) => {}
            Some(behind) if behind < 0 => return true,
            _ => return false,
        }
    }
    match (setter.path.last(), user.path.get(setter.path.len().wrapping_sub(1))) {
        (Some(setter), Some(user)) => setter < user,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &[usize], loops: &[u32]) -> StatementPosition {
        StatementPosition { path: path.to_vec(), loops: loops.iter().map(|&id| LoopId(id)).collect() }
    }

    #[test]
    fn text_order_decides_within_one_iteration() {
        let same = |var: LoopId| Some(Affine::var(var));
        let (first, second) = (place(&[0], &[0]), place(&[1], &[0]));
        assert!(is_done(&first, &second, same));
        assert!(!is_done(&second, &first, same));
        assert!(!is_done(&first, &first, same));
        // `for i0 { for i1 { setter }  user }`, and the other way round.
        let inside = place(&[0, 0], &[0, 1]);
        assert!(is_done(&inside, &second, same));
        assert!(!is_done(&place(&[1, 0], &[0, 1]), &first, same));
    }

    #[test]
    fn earlier_iterations_are_done_and_unknown_ones_may_not_be() {
        let (setter, user) = (place(&[1], &[0]), place(&[0], &[0]));
        let shifted = |by: i64| move |var: LoopId| Some(Affine::var(var).plus_constant(by));
        assert!(is_done(&setter, &user, shifted(-1)));
        assert!(!is_done(&setter, &user, shifted(1)));
        assert!(!is_done(&setter, &user, |_| None));
        assert!(!is_done(&setter, &user, |_| Some(Affine::constant(0))));
    }
}
