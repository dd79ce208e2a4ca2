//! Lets neighbouring loops run together.
//!
//! `for i in 0..n { A }; for j in 0..n { B(j) } = for i in 0..n { A; B(i) }`, if both touch some node and the iterations of the
//! result are independent: then no iteration of one loop needs more of the other than the iteration beside it. What one body
//! leaves in the cache the next finds there, and threads wait for each other once. No bit changes.

use lowered_ir::ir::{Affine, Block, Bound, LoopId, LoopKind, Routine, Stmt, walk};

use codegen_core::access::{self, Ranges};

/// Statements in the body of one loop, loops inside counted as one: whatever so many share is in registers or the innermost cache long
/// before, and it takes time to find out what may stand beside them.
pub(crate) const STATEMENTS: usize = 64;

/// Whether two neighbouring loops are to become one, the third.
type Wanted<'a> = &'a dyn Fn(&Stmt, &Stmt, &Stmt) -> bool;

/// Fuses the neighbours among the top-level statements where it is wanted, and those inside what became one loop.
pub(crate) fn fuse_where(routine: &mut Routine, wanted: Wanted<'_>) {
    let ranges = Ranges::of(routine);
    routine.body = fuse_block(std::mem::take(&mut routine.body), &ranges, wanted);
}

fn fuse_block(block: Block, ranges: &Ranges, wanted: Wanted<'_>) -> Block {
    let mut out = Block::new();
    for stmt in block {
        match fused_with_last(&mut out, &stmt, ranges, wanted) {
            Some(fused) => out.push(fused),
            None => out.push(stmt),
        }
    }
    out
}

/// The statement and the loop before it as one loop, which replaces the remarks between the two as well.
fn fused_with_last(out: &mut Block, stmt: &Stmt, ranges: &Ranges, wanted: Wanted<'_>) -> Option<Stmt> {
    let at = out.iter().rposition(|stmt| !matches!(stmt, Stmt::Comment(_)))?;
    let (var, extent, first) = serial(&out[at])?;
    let (second_var, second_extent, second) = serial(stmt)?;
    let too_many = first.len() + second.len() > STATEMENTS;
    if extent != second_extent || too_many || access::nodes(first).is_disjoint(&access::nodes(second)) {
        return None;
    }
    let mut second = second.clone();
    walk::substitute(&mut second, second_var, &Affine::var(var));
    let body: Block = first.iter().chain(&out[at + 1..]).chain(&second).cloned().collect();
    if !access::independent(var, &body, ranges) {
        return None;
    }
    let fused = Stmt::serial(var, extent, fuse_block(body, ranges, &|_, _, _| true));
    if !wanted(&out[at], stmt, &fused) {
        return None;
    }
    out.truncate(at);
    Some(fused)
}

/// The variable, the extent and the body of a serial loop that starts at 0 and has a constant bound.
fn serial(stmt: &Stmt) -> Option<(LoopId, i64, &Block)> {
    match stmt {
        Stmt::For { var, lo: 0, hi: Bound { limit, symbol: None }, kind: LoopKind::Serial, body } => {
            Some((*var, *limit, body))
        }
        _ => None,
    }
}
