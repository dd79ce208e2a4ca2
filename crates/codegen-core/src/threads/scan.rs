//! Facts about statements that code generators need before they reach them.

use lowered_ir::ir::{Affine, Bound, Expr, LocalId, LoopId, Stmt, walk};

/// Whether the first of these statements that mentions a local stores into each of its elements and reads none: a nest whose
/// loops are its dimensions.
pub fn overwrites_first(rest: &[Stmt], local: LocalId, dims: &[usize]) -> bool {
    let mut loops: Vec<(LoopId, i64)> = Vec::new();
    let mut block = rest;
    loop {
        let mut mentioning = block.iter().filter(|stmt| mentions(stmt, local));
        let Some(stmt) = mentioning.next() else { return loops.is_empty() };
        // In a loop, statements behind the store might read what it has not reached yet.
        if !loops.is_empty() && mentioning.next().is_some() {
            return false;
        }
        match stmt {
            Stmt::For { var, lo: 0, hi: Bound { limit, symbol: None }, body, .. } if *limit > 0 => {
                loops.push((*var, *limit));
                block = body;
            }
            Stmt::SetLocal { local: set, index, value } => {
                return *set == local && !reads(value, local) && covers(index, dims, &loops);
            }
            _ => return false,
        }
    }
}

/// Whether an index runs over all elements: each dimension is a loop of its own.
fn covers(index: &[Affine], dims: &[usize], loops: &[(LoopId, i64)]) -> bool {
    let runs_over = |(i, &dim): (&Affine, &usize)| {
        dim == 1 && i.as_constant() == Some(0)
            || loops.iter().any(|&(var, limit)| *i == Affine::var(var) && limit == dim as i64)
    };
    let once = |var: LoopId| index.iter().filter(|i| i.mentions(var)).count() <= 1;
    index.iter().zip(dims).all(runs_over) && loops.iter().all(|&(var, _)| once(var))
}

fn mentions(stmt: &Stmt, local: LocalId) -> bool {
    let mut found = false;
    walk::each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        found |= matches!(stmt, Stmt::SetLocal { local: set, .. } if *set == local);
        found |= stmt.values().into_iter().any(|value| reads(value, local));
    });
    found
}

fn reads(value: &Expr, local: LocalId) -> bool {
    let mut found = false;
    walk::each_expr(value, &mut |e| {
        found |= matches!(e, Expr::GetLocal { local: read, .. } if *read == local);
    });
    found
}
