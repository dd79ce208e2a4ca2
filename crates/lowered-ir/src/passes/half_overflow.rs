//! Half-precision overflow check: a constant near the top of the range of its type is seldom intended, since
//! the next sum or product with it overflows.
//!
//! The check treats the floats with at most 5 bits of exponent: `f16`, `fp8_e5m2` and `fp8_e4m3fn` (whose
//! largest value, 448, lies below any sensible limit). Infinities pass, since they are intended: the neutral
//! elements of maxima and minima.

use tnode::{DType, Scalar};

use crate::ir::{Block, Expr, LoweredRoutine, NodeRef, Stmt, walk};
use crate::text;

/// A finite constant whose magnitude reaches the limit for its half-precision or 8-bit type.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error(
    "routine \"{routine}\": the constant {value} of type {dtype} in `{stmt}`, expected a magnitude below {cutoff}: use a type with \
     more range, or set half_constant_cutoff"
)]
pub struct HalfOverflow {
    /// The routine.
    pub routine: String,
    /// The constant's value.
    pub value: f64,
    /// Its type.
    pub dtype: DType,
    /// The statement of the optimized routine that has it.
    pub stmt: String,
    /// The node that the statement writes, if it writes one.
    pub node: Option<NodeRef>,
    /// The limit it reaches.
    pub cutoff: f64,
}

/// Checks every constant of the routine against `cutoff`, a magnitude.
///
/// # Errors
/// The first constant, in the order of the text, whose magnitude is `cutoff` or more.
pub fn check(routine: &LoweredRoutine, cutoff: f64) -> Result<(), HalfOverflow> {
    match large_constant(&routine.body, cutoff) {
        None => Ok(()),
        Some((stmt, constant)) => Err(HalfOverflow {
            routine: routine.name.clone(),
            value: constant.as_f64(),
            dtype: constant.dtype(),
            stmt: text::print_stmt(routine, stmt).lines().next().unwrap_or_default().to_owned(),
            node: match stmt {
                Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } => Some(*node),
                _ => None,
            },
            cutoff,
        }),
    }
}

fn large_constant(block: &Block, cutoff: f64) -> Option<(&Stmt, Scalar)> {
    walk::stmts(block).find_map(|stmt| {
        stmt.parts().find_map(|part| match part {
            Expr::Const(c) if is_large(*c, cutoff) => Some((stmt, *c)),
            _ => None,
        })
    })
}

fn is_large(constant: Scalar, cutoff: f64) -> bool {
    let narrow = matches!(constant.dtype(), DType::F16 | DType::Fp8E5m2 | DType::Fp8E4m3fn);
    let magnitude = constant.as_f64().abs();
    narrow && magnitude.is_finite() && magnitude >= cutoff
}
