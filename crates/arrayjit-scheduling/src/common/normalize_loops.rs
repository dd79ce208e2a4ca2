//! Normalizes loops: constant bounds start at 0, empty loops are removed, and a loop of one iteration is
//! replaced by its body.

use lowered_ir::ir::{Affine, Block, LoopKind, LoweredRoutine, Stmt, walk};

/// Rewrites every loop of the routine: see [`normalize_block`].
pub(crate) fn normalize_loops(routine: &mut LoweredRoutine) {
    normalize_block(&mut routine.body);
}

/// Normalizes every loop of the block, except vector loops.
///
/// * `for i in lo..hi { … i … } = for i in 0..hi-lo { … (i + lo) … }`, if `hi` is a constant;
/// * `for i in lo..hi { … } = nothing`, if `hi <= lo` whatever its clips are;
/// * `for i in 0..1 { … i … } = … 0 …`, if the body declares no local: without the loop, the local's scope
///   would grow.
pub(crate) fn normalize_block(block: &mut Block) {
    let before = std::mem::take(block);
    *block = Block::with_capacity(before.len());
    before.into_iter().for_each(|stmt| normalize(stmt, block));
}

fn normalize(stmt: Stmt, out: &mut Block) {
    match stmt {
        Stmt::For { lo, hi, .. } if hi.limit <= lo => {}
        Stmt::For { kind: LoopKind::Vector, .. } => out.push(stmt),
        Stmt::For { var, lo, hi, kind, mut body } if let Some(limit) = hi.constant() => {
            if lo != 0 {
                walk::substitute(&mut body, var, &Affine::var(var).plus_constant(lo));
            }
            normalize_block(&mut body);
            // A workgroup loop of one iteration stays, because it selects the thread that runs its body.
            let once = limit - lo == 1
                && kind != LoopKind::Workgroup
                && !body.iter().any(|stmt| matches!(stmt, Stmt::Declare { .. }));
            if once {
                walk::substitute(&mut body, var, &Affine::constant(0));
                out.append(&mut body);
            } else if !body.is_empty() {
                out.push(Stmt::looped(var, limit - lo, kind, body));
            }
        }
        Stmt::For { var, lo, hi, kind, mut body } => {
            normalize_block(&mut body);
            if !body.is_empty() {
                out.push(Stmt::For { var, lo, hi, kind, body });
            }
        }
        stmt => out.push(stmt),
    }
}
