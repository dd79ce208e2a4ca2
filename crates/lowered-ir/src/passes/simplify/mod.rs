//! Simplification: expressions are rewritten by a table of equations until none applies.
//!
//! The equations stand in `strict` and `fast`, each as a comment beside the code that applies it, with its condition.
//! Strict equations keep every bit, signed zeros and infinities included; only which NaN results is not kept, for the
//! semantics of operations leave that open ([`crate::eval`]). Fast equations apply to routines of class
//! [`Numerics::Fast`] and may round differently, but never less exactly.
//!
//! # Termination
//! Order expressions by (number of parts, number of divisions and subtractions, number of constants that stand left of a
//! variable operand), lexicographically. Every equation makes its expression smaller in that order: all shrink the first
//! but `x / c = x * (1/c)`, `x - c = x + (-c)` and `x - y * c = x + y * (-c)`, which keep it and shrink the second, and `c + x = x + c` and its like,
//! which keep both and shrink the third; `pow(x, 2) = x * x` is applied where `x` is one part. Equations are applied bottom-up, and to
//! a fixed point at each part.

mod constant;
mod fast;
mod ranged;
mod strict;
#[cfg(test)]
mod tests;

use tnode::DType;

use super::ranges::Ranges;
use crate::ir::{Expr, Locals, Numerics, Routine, walk};

/// What equations may ask about the place of an expression.
struct Ctx<'a> {
    routine: &'a Routine,
    locals: &'a Locals,
    ranges: &'a Ranges,
}

impl Ctx<'_> {
    fn dtype(&self, expr: &Expr) -> DType {
        self.routine.dtype_of(expr, self.locals)
    }
}

/// A group of equations: the right side, if the expression is a left side and the condition holds.
type Rules = fn(&Expr, &Ctx<'_>) -> Option<Expr>;

const STRICT: &[Rules] =
    &[constant::fold, strict::unary, strict::binary, strict::ternary, strict::convert, ranged::known];
const FAST: &[Rules] = &[fast::pow];

/// Simplifies every value of the routine.
pub fn simplify(routine: &mut Routine) {
    let mut body = std::mem::take(&mut routine.body);
    let shell = Routine { body: body.clone(), ..routine.clone() };
    let (locals, ranges) = (shell.locals(), Ranges::of(&shell));
    let ctx = Ctx { routine: &shell, locals: &locals, ranges: &ranges };
    walk::map_values(&mut body, &mut |value| simplified(value, &ctx));
    routine.body = body;
}

/// The expression with all equations applied, innermost parts first.
fn simplified(expr: Expr, ctx: &Ctx<'_>) -> Expr {
    walk::map_expr(expr, &mut |part| fixed_point(part, ctx))
}

fn fixed_point(mut expr: Expr, ctx: &Ctx<'_>) -> Expr {
    let fast: &[Rules] = if ctx.routine.numerics == Numerics::Fast { FAST } else { &[] };
    while let Some(next) = STRICT.iter().chain(fast).find_map(|rules| rules(&expr, ctx)) {
        // A right side may have new parts below its root; they get their turn before the root's next.
        expr = walk::map_children(next, &mut |child| shallow(child, ctx));
    }
    expr
}

/// One more look at a part whose own parts are simple already.
fn shallow(expr: Expr, ctx: &Ctx<'_>) -> Expr {
    match STRICT.iter().find_map(|rules| rules(&expr, ctx)) {
        Some(next) => fixed_point(next, ctx),
        None => expr,
    }
}
