//! Expands powers with constant integral exponents to products, by repeated squaring: at most two products
//! for each bit of the exponent.
//!
//! Squares that are used more than once are bound to locals, so the cost is logarithmic in the exponent
//! whatever later passes do. Only small powers of a single read stay one expression, so that an accumulation
//! around them stays one statement.
//!
//! | equation | condition | class |
//! |---|---|---|
//! | `pow(x, n)` = `x * x * …` | integers, n > 1 | strict: products wrap as the definition's do |
//! | `pow(x, -n)` = `recip(x)` | integers, n odd; `recip(x)` is 1, −1 or 0 | strict |
//! | `pow(x, -n)` = `abs(recip(x))` | integers, n even | strict |
//! | `pow(x, n)` = `x * x * …` | floats, 1 < n ≤ [`OptimizeSettings::integer_pow`] | fast |
//! | `pow(x, -n)` = `recip(x * x * …)` | floats, 1 < n ≤ [`OptimizeSettings::integer_pow`] | fast |
//!
//! # Numerics
//! Each product of floats rounds once, and so does the reciprocal: the relative error is below n half-units
//! in the last place, (n + 1) with the reciprocal, where `pow` itself promises about one unit. Where xⁿ
//! overflows or vanishes, x⁻ⁿ is 0 or ∞, even if a subnormal or very large result would be nearer. The 16-
//! and 8-bit floats multiply in `f32`, as their operations do, and round once at the end.

use crate::eval;
use crate::ir::{BinaryOp, Block, Expr, LoweredRoutine, Numerics, Stmt, UnaryOp, walk};

use super::bind::Binder;
use super::settings::OptimizeSettings;

/// The largest exponent for which a power of a single read becomes one expression without locals.
const WRITTEN_OUT: u128 = 4;

/// Replaces powers with constant integral exponents by products.
pub fn expand_powers(routine: &mut LoweredRoutine, settings: &OptimizeSettings) {
    if !has_powers(routine) {
        return;
    }
    let most = if routine.numerics == Numerics::Fast { settings.integer_pow } else { 0 };
    Binder::rewrite(routine, |binder, body| {
        Expander { binder, most: f64::from(most), out: Block::new() }.block(body)
    });
}

fn has_powers(routine: &LoweredRoutine) -> bool {
    walk::parts_in(&routine.body).any(|part| matches!(part, Expr::Binary { op: BinaryOp::Pow, .. }))
}

struct Expander<'a> {
    binder: Binder<'a>,
    /// The largest exponent for floats.
    most: f64,
    /// The block being written.
    out: Block,
}

impl Expander<'_> {
    fn block(&mut self, block: Block) -> Block {
        let outer = std::mem::replace(&mut self.out, Block::with_capacity(block.len()));
        for mut stmt in block {
            if let Stmt::For { body, .. } = &mut stmt {
                *body = self.block(std::mem::take(body));
            } else {
                walk::map_parts(std::slice::from_mut(&mut stmt), &mut |part| self.expanded(part));
            }
            self.out.push(stmt);
        }
        std::mem::replace(&mut self.out, outer)
    }

    fn expanded(&mut self, expr: Expr) -> Expr {
        let Expr::Binary { op: BinaryOp::Pow, a, b } = expr else { return expr };
        match exponent(&b).filter(|n| self.allows(*n, &b)) {
            Some(n) if is_float(&b) => self.float_power(*a, n),
            Some(n) if n < 0 => inverse_power(*a, n),
            Some(n) => self.power(*a, n.unsigned_abs()),
            None => Expr::Binary { op: BinaryOp::Pow, a, b },
        }
    }

    /// Whether this power is to become products. Exponents 0 and 1 are left to the simplifier.
    fn allows(&self, n: i128, exponent: &Expr) -> bool {
        n != 0 && n != 1 && (!is_float(exponent) || (n != -1 && n.unsigned_abs() as f64 <= self.most))
    }

    fn float_power(&mut self, base: Expr, n: i128) -> Expr {
        let narrow = self.binder.dtype(&base);
        let wide = eval::computes_in(narrow);
        let base = if wide == narrow { base } else { Expr::convert(wide, base) };
        let power = self.power(base, n.unsigned_abs());
        let power = if n < 0 { Expr::unary(UnaryOp::Recip, power) } else { power };
        if wide == narrow { power } else { Expr::convert(narrow, power) }
    }

    /// `base` to the power of `n` > 1.
    fn power(&mut self, base: Expr, n: u128) -> Expr {
        if n <= WRITTEN_OUT && is_one_read(&base) {
            return written_out(&base, n);
        }
        let mut square = Expr::local(self.binder.bind(base, &mut self.out));
        let mut power: Option<Expr> = None;
        let mut left = n;
        loop {
            if left & 1 == 1 {
                power = Some(match power {
                    Some(power) => product(power, square.clone()),
                    None => square.clone(),
                });
            }
            left >>= 1;
            if left == 0 {
                return power.unwrap_or(square);
            }
            square = product(square.clone(), square);
            if left > 1 {
                square = Expr::local(self.binder.bind(square, &mut self.out));
            }
        }
    }
}

/// The exponent, if it is a constant that is integral.
fn exponent(expr: &Expr) -> Option<i128> {
    let Expr::Const(c) = expr else { return None };
    let value = c.as_f64();
    match c.dtype() {
        d if d.is_float() => (value.fract() == 0.0 && value.abs() < 1e9).then_some(value as i128),
        d if d.is_integer() => Some(if d.is_signed() { i128::from(c.as_i64()) } else { c.bits() as i128 }),
        _ => None,
    }
}

fn is_float(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(c) if c.dtype().is_float())
}

/// The reciprocal of an integer power: 1 and −1 have inverses, any other base gives 0.
fn inverse_power(base: Expr, n: i128) -> Expr {
    let inverse = Expr::unary(UnaryOp::Recip, base);
    if n % 2 == 0 { Expr::unary(UnaryOp::Abs, inverse) } else { inverse }
}

/// Whether repeating the expression repeats no operation but a conversion.
fn is_one_read(expr: &Expr) -> bool {
    match expr {
        Expr::Get { .. } | Expr::GetLocal { .. } | Expr::Index { .. } | Expr::GetMerge { .. } => true,
        Expr::Convert { arg, .. } => is_one_read(arg),
        _ => false,
    }
}

/// The power as one expression: 2 ≤ `n` ≤ [`WRITTEN_OUT`].
fn written_out(base: &Expr, n: u128) -> Expr {
    let square = product(base.clone(), base.clone());
    match n {
        2 => square,
        3 => product(square, base.clone()),
        _ => product(square.clone(), square),
    }
}

fn product(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Mul, a, b)
}
