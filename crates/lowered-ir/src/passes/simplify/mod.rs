//! Simplification: expressions are rewritten by a table of equations with conditions until none applies.
//!
//! [`equations`] is the table; `docs/equations.md` shows it. An equation is data, two patterns and a
//! condition, wherever patterns can express it. Tests evaluate both sides of each on every type and on the
//! values where equations go wrong: strict equations keep every bit except for the choice of NaN, and for
//! each other equation there are values that show why it is not strict.
//!
//! # Termination
//! Order expressions lexicographically by the number of: hyperbolic tangents; nodes of the expression, where
//! `mul3` counts as three; divisions and differences; constants to the left of a varying operand. Every
//! equation makes its expression smaller in that order; a test checks this for the equations between
//! patterns. Equations are applied to operands first, and to a fixed point at each node.

mod convert;
mod equation;
mod extremes;
mod logic;
mod pattern;
mod products;
mod ranged;
mod sums;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use tnode::DType;

use super::ranges::Ranges;
use super::settings::OptimizeSettings;
use crate::ir::{Expr, IdMap, Locals, LoweredRoutine, Numerics, walk};

pub use equation::{Condition, Equation, EquationClass};
pub use pattern::EquationMatch;

use equation::EquationMethod;
use pattern::{Pattern, RootOp};

/// The context of an expression that the conditions of equations may query.
struct SimplifyContext<'a> {
    routine: &'a LoweredRoutine,
    locals: &'a Locals,
    ranges: &'a Ranges,
    /// The most permissive class in use.
    class: EquationClass,
}

impl SimplifyContext<'_> {
    fn dtype(&self, expr: &Expr) -> DType {
        self.routine.dtype_of(expr, self.locals)
    }
}

/// Every equation, by chapters; within a chapter, the first that applies is applied.
pub fn equations() -> impl Iterator<Item = &'static Equation> {
    chapters().into_iter().flat_map(|(_, equations)| equations)
}

/// The chapters of the table with their titles.
pub(crate) fn chapters() -> [(&'static str, &'static [Equation]); 6] {
    [
        ("Constants and conversions", convert::EQUATIONS),
        ("Indices", ranged::EQUATIONS),
        ("Sums", sums::EQUATIONS),
        ("Products", products::EQUATIONS),
        ("Maxima, minima and roundings", extremes::EQUATIONS),
        ("Truth values, selections and bits", logic::EQUATIONS),
    ]
}

/// An equation with its sides parsed.
struct CompiledEquation {
    equation: &'static Equation,
    how: RewriteMethod,
}

enum RewriteMethod {
    Pattern(Pattern, Pattern),
    Code(fn(&Expr, &SimplifyContext<'_>) -> Option<Expr>),
}

/// The table of equations, indexed by the operation at the root of the left side.
struct EquationTable {
    by_head: IdMap<RootOp, Vec<CompiledEquation>>,
    /// The equations that are applied by code.
    anywhere: Vec<CompiledEquation>,
}

static TABLE: LazyLock<EquationTable> = LazyLock::new(|| {
    let mut table = EquationTable { by_head: IdMap::default(), anywhere: Vec::new() };
    for equation in equations() {
        match equation.how {
            EquationMethod::Code(apply) => {
                table.anywhere.push(CompiledEquation { equation, how: RewriteMethod::Code(apply) })
            }
            EquationMethod::Pattern => {
                let side = |text| pattern::parse(text).expect("a test parses every equation of the table");
                let (left, right) = (side(equation.left), side(equation.right));
                let head = left.head();
                let rule = CompiledEquation { equation, how: RewriteMethod::Pattern(left, right) };
                table.by_head.entry(head).or_default().push(rule);
            }
        }
    }
    table
});

impl CompiledEquation {
    /// The right side, if the expression is a left side, the condition holds and the class is in use.
    fn apply(&self, expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
        if self.equation.class > ctx.class {
            return None;
        }
        match &self.how {
            RewriteMethod::Code(apply) => apply(expr, ctx),
            RewriteMethod::Pattern(left, right) => {
                let mut found = EquationMatch::default();
                if !left.matches(expr, &mut found) {
                    return None;
                }
                found.settle_type(expr, |part| ctx.dtype(part));
                (self.equation.when.holds)(&found).then(|| right.build(&found))
            }
        }
    }
}

/// Simplifies every value of the routine.
pub fn simplify(routine: &mut LoweredRoutine, settings: &OptimizeSettings) {
    let (locals, ranges) = (routine.locals(), Ranges::of(routine));
    let class = class_in_use(routine.numerics, settings);
    let mut body = std::mem::take(&mut routine.body);
    let ctx = SimplifyContext { routine, locals: &locals, ranges: &ranges, class };
    walk::map_values(&mut body, &mut |value| simplified(value, &ctx));
    routine.body = body;
}

fn class_in_use(numerics: Numerics, settings: &OptimizeSettings) -> EquationClass {
    match numerics {
        Numerics::Strict => EquationClass::Strict,
        Numerics::Fast if settings.fast_math => EquationClass::Real,
        Numerics::Fast => EquationClass::Fast,
    }
}

/// The expression with all equations applied, innermost parts first.
fn simplified(expr: Expr, ctx: &SimplifyContext<'_>) -> Expr {
    walk::map_expr(expr, &mut |part| fixed_point(part, ctx))
}

fn fixed_point(mut expr: Expr, ctx: &SimplifyContext<'_>) -> Expr {
    while let Some(next) = rewritten(&expr, ctx) {
        // A right side may have new parts below its root; they are simplified before the root is tried again.
        expr = walk::map_children(next, &mut |child| shallow(child, ctx));
    }
    expr
}

/// Simplifies an expression whose parts are simplified already.
fn shallow(expr: Expr, ctx: &SimplifyContext<'_>) -> Expr {
    match rewritten(&expr, ctx) {
        Some(next) => fixed_point(next, ctx),
        None => expr,
    }
}

/// The right side of the first equation that applies to the whole expression.
fn rewritten(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let table = &*TABLE;
    let by_head = table.by_head.get(&RootOp::of(expr)).map_or(&[][..], Vec::as_slice);
    table.anywhere.iter().chain(by_head).find_map(|rule| rule.apply(expr, ctx))
}
