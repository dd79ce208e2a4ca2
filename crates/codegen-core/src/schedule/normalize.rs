//! Brings loops to one form: constant bounds start at 0, and a loop without iterations is gone.

use lowered_ir::ir::{Affine, Block, Bound, Stmt, walk};

/// Rewrites every loop of the block.
///
/// * `for i in lo..hi { … i … } = for i in 0..hi-lo { … (i + lo) … }`, if `hi` is a constant;
/// * `for i in lo..hi { … } = nothing`, if `hi <= lo` whatever the symbols are.
pub(super) fn normalize(block: &mut Block) {
    block.retain(|stmt| !matches!(stmt, Stmt::For { lo, hi, .. } if hi.limit <= *lo));
    for stmt in block.iter_mut() {
        if let Stmt::For { var, lo, hi, body, .. } = stmt {
            if *lo != 0 && hi.symbol.is_none() {
                walk::substitute(body, *var, &Affine::var(*var).plus_constant(*lo));
                *hi = Bound::from(hi.limit - *lo);
                *lo = 0;
            }
            normalize(body);
        }
    }
    block.retain(|stmt| !matches!(stmt, Stmt::For { body, .. } if body.is_empty()));
}
