//! Indices as the text writes them, and their linear forms.
//!
//! A size, a repetition's letter or a function's parameter may be a factor in an index, as in `x[d*i + k]`.
//! Their values are known only after expansion, so the parser keeps an index as a tree. Afterwards every
//! index is a sum of an offset and of integer multiples of letters and symbols.

use crate::error::{LocatedError, Result, TextErrorKind};
use assignments::ByteRange;

/// `size(x, 1)`: the size of an axis of a node.
#[derive(Clone, Debug)]
pub(crate) struct AxisSize {
    pub(crate) node: String,
    /// The position of the node in its family; empty for other nodes, and after expansion.
    pub(crate) family: Vec<IndexExpr>,
    pub(crate) axis: usize,
}

/// A variable of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Atom {
    Letter(String),
    Symbol(String),
}

/// An index, or another integer such as a size.
#[derive(Clone, Debug)]
pub(crate) struct IndexExpr {
    pub(crate) kind: IndexExprKind,
    pub(crate) span: ByteRange,
}

#[derive(Clone, Debug)]
pub(crate) enum IndexExprKind {
    Number(i128),
    Atom(Atom),
    /// `size(i)`, the size of an axis of a function's parameter.
    LetterSize(String),
    AxisSize(AxisSize),
    Negated(Box<IndexExpr>),
    /// The first term, then the others with their signs: `true` for minus.
    Sum(Box<IndexExpr>, Vec<(bool, IndexExpr)>),
    /// The first factor, then the others with their operations and the byte ranges of these.
    Product(Box<IndexExpr>, Vec<(FactorOp, ByteRange, IndexExpr)>),
}

/// The expression in place of another, if there is one.
type Replacement = Result<Option<IndexExprKind>>;

/// An operation between factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactorOp {
    Times,
    /// A division, which must leave no remainder.
    Over,
    Modulo,
}

impl FactorOp {
    pub(crate) fn token(self) -> &'static str {
        match self {
            FactorOp::Times => "*",
            FactorOp::Over => "/",
            FactorOp::Modulo => "%",
        }
    }
}

/// `offset + Σ coefficient · atom`. Each atom occurs once, in order of first mention, with the byte range of
/// that mention.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub(crate) terms: Vec<(Atom, i64, ByteRange)>,
    pub(crate) offset: i64,
    pub(crate) span: ByteRange,
}

impl IndexExpr {
    pub(crate) fn number(value: i64, span: ByteRange) -> IndexExpr {
        IndexExpr { kind: IndexExprKind::Number(i128::from(value)), span }
    }

    pub(crate) fn atom(atom: Atom, span: ByteRange) -> IndexExpr {
        IndexExpr { kind: IndexExprKind::Atom(atom), span }
    }

    pub(crate) fn letter(name: impl Into<String>, span: ByteRange) -> IndexExpr {
        IndexExpr::atom(Atom::Letter(name.into()), span)
    }

    /// The letter that is the whole index.
    pub(crate) fn as_letter(&self) -> Option<&str> {
        match &self.kind {
            IndexExprKind::Atom(Atom::Letter(name)) => Some(name),
            _ => None,
        }
    }

    /// Calls `f` on every letter and symbol in order of mention, repetitions included.
    pub(crate) fn each_atom<'a>(&'a self, f: &mut dyn FnMut(&'a Atom, &'a ByteRange)) {
        match &self.kind {
            IndexExprKind::Number(_) | IndexExprKind::LetterSize(_) | IndexExprKind::AxisSize(_) => {}
            IndexExprKind::Atom(atom) => f(atom, &self.span),
            IndexExprKind::Negated(inner) => inner.each_atom(f),
            IndexExprKind::Sum(first, others) => {
                first.each_atom(f);
                others.iter().for_each(|(_, term)| term.each_atom(f));
            }
            IndexExprKind::Product(first, others) => {
                first.each_atom(f);
                others.iter().for_each(|(.., factor)| factor.each_atom(f));
            }
        }
    }

    /// Whether the expression mentions the size of an axis.
    pub(crate) fn has_sizes(&self) -> bool {
        match &self.kind {
            IndexExprKind::Number(_) | IndexExprKind::Atom(_) => false,
            IndexExprKind::LetterSize(_) | IndexExprKind::AxisSize(_) => true,
            IndexExprKind::Negated(inner) => inner.has_sizes(),
            IndexExprKind::Sum(first, others) => {
                first.has_sizes() || others.iter().any(|(_, term)| term.has_sizes())
            }
            IndexExprKind::Product(first, others) => {
                first.has_sizes() || others.iter().any(|(.., factor)| factor.has_sizes())
            }
        }
    }

    /// Whether the expression has a quotient or a remainder.
    pub(crate) fn divides(&self) -> bool {
        match &self.kind {
            IndexExprKind::Number(_)
            | IndexExprKind::Atom(_)
            | IndexExprKind::LetterSize(_)
            | IndexExprKind::AxisSize(_) => false,
            IndexExprKind::Negated(inner) => inner.divides(),
            IndexExprKind::Sum(first, others) => {
                first.divides() || others.iter().any(|(_, term)| term.divides())
            }
            IndexExprKind::Product(first, others) => {
                let is_quotient =
                    |(op, _, factor): &(FactorOp, _, IndexExpr)| *op != FactorOp::Times || factor.divides();
                first.divides() || others.iter().any(is_quotient)
            }
        }
    }

    /// Replaces every letter, symbol and size by the expression that `f` gives for it, if it gives one.
    pub(crate) fn replace(
        &mut self,
        f: &mut dyn FnMut(&IndexExprKind, &ByteRange) -> Replacement,
    ) -> Result<()> {
        match &mut self.kind {
            IndexExprKind::Number(_) => {}
            leaf @ (IndexExprKind::Atom(_) | IndexExprKind::LetterSize(_) | IndexExprKind::AxisSize(_)) => {
                if let Some(kind) = f(leaf, &self.span)? {
                    *leaf = kind;
                }
            }
            IndexExprKind::Negated(inner) => inner.replace(f)?,
            IndexExprKind::Sum(first, others) => {
                first.replace(f)?;
                others.iter_mut().try_for_each(|(_, term)| term.replace(f))?;
            }
            IndexExprKind::Product(first, others) => {
                first.replace(f)?;
                others.iter_mut().try_for_each(|(.., factor)| factor.replace(f))?;
            }
        }
        Ok(())
    }

    /// The linear form.
    ///
    /// # Errors
    /// If the expression multiplies letters, divides them, divides with a remainder or overflows.
    pub(crate) fn linear(&self) -> Result<Linear> {
        let plain = |terms, offset| Linear { terms, offset, span: self.span.clone() };
        match &self.kind {
            IndexExprKind::Number(number) => {
                i64::try_from(*number).map(|offset| plain(vec![], offset)).map_err(|_| overflow(&self.span))
            }
            IndexExprKind::Atom(atom) => Ok(plain(vec![(atom.clone(), 1, self.span.clone())], 0)),
            IndexExprKind::LetterSize(_) | IndexExprKind::AxisSize(_) => {
                let found = "the size of a letter; the size of an axis is written `size(x, 0)`";
                Err(TextErrorKind::NotAffine { found }.at(&self.span))
            }
            IndexExprKind::Negated(inner) => {
                Ok(Linear { span: self.span.clone(), ..scale(inner.linear()?, -1)? })
            }
            IndexExprKind::Sum(first, others) => {
                others.iter().try_fold(first.linear()?, |sum, (minus, term)| {
                    add(sum, term.linear()?, if *minus { -1 } else { 1 })
                })
            }
            IndexExprKind::Product(first, others) => {
                others.iter().try_fold(first.linear()?, |product, (op, op_span, factor)| match op {
                    FactorOp::Times => multiply(product, factor.linear()?),
                    FactorOp::Over => divide(product, &factor.linear()?, op_span),
                    FactorOp::Modulo => modulo(product, &factor.linear()?, op_span),
                })
            }
        }
    }

    /// The value of an expression without letters and symbols; `None` if there are any. A number alone may
    /// be larger than the numbers with which indices compute.
    ///
    /// # Errors
    /// If the expression has no linear form.
    pub(crate) fn integer(&self) -> Result<Option<i128>> {
        if let IndexExprKind::Number(number) = self.kind {
            return Ok(Some(number));
        }
        let linear = self.linear()?;
        Ok(linear.terms.is_empty().then(|| i128::from(linear.offset)))
    }

    /// The value of an expression that must be an integer.
    pub(crate) fn known_integer(&self) -> Result<i64> {
        let linear = self.linear()?;
        match linear.terms.first() {
            None => Ok(linear.offset),
            Some((atom, _, span)) => Err(TextErrorKind::NoInteger { name: atom.to_string() }.at(span)),
        }
    }
}

fn overflow(span: &ByteRange) -> LocatedError {
    TextErrorKind::NotAffine { found: "a number that overflows" }.at(span)
}

/// `a + factor · b`.
fn add(a: Linear, b: Linear, factor: i64) -> Result<Linear> {
    let span = a.span.start..b.span.end;
    let b = scale(b, factor)?;
    let offset = a.offset.checked_add(b.offset).ok_or_else(|| overflow(&span))?;
    let mut sum = Linear { offset, span: span.clone(), ..a };
    for (atom, coefficient, at) in b.terms {
        match sum.terms.iter_mut().find(|(known, ..)| *known == atom) {
            Some((_, known, _)) => *known = known.checked_add(coefficient).ok_or_else(|| overflow(&span))?,
            None => sum.terms.push((atom, coefficient, at)),
        }
    }
    Ok(sum)
}

fn multiply(a: Linear, b: Linear) -> Result<Linear> {
    let span = a.span.start..b.span.end;
    let (linear, factor) = match (a.terms.is_empty(), b.terms.is_empty()) {
        (true, _) => (b, a.offset),
        (_, true) => (a, b.offset),
        (false, false) => return Err(TextErrorKind::NotAffine { found: "a product of letters" }.at(&span)),
    };
    scale(Linear { span, ..linear }, factor)
}

fn scale(mut linear: Linear, factor: i64) -> Result<Linear> {
    let times = |c: i64, span: &ByteRange| c.checked_mul(factor).ok_or_else(|| overflow(span));
    linear.offset = times(linear.offset, &linear.span)?;
    for (_, coefficient, span) in &mut linear.terms {
        *coefficient = times(*coefficient, span)?;
    }
    Ok(linear)
}

/// The quotient of two constants, which must be whole.
fn divide(a: Linear, b: &Linear, op_span: &ByteRange) -> Result<Linear> {
    let (dividend, divisor) = constants(&a, b, op_span)?;
    if dividend.checked_rem(divisor) != Some(0) {
        return Err(TextErrorKind::NotWhole { dividend, divisor }.at(&(a.span.start..b.span.end)));
    }
    Ok(Linear { terms: vec![], offset: dividend / divisor, span: a.span.start..b.span.end })
}

/// The remainder of two constants, which is never negative.
fn modulo(a: Linear, b: &Linear, op_span: &ByteRange) -> Result<Linear> {
    let (dividend, divisor) = constants(&a, b, op_span)?;
    let span = a.span.start..b.span.end;
    match dividend.checked_rem_euclid(divisor) {
        Some(offset) => Ok(Linear { terms: vec![], offset, span }),
        None => Err(TextErrorKind::NotAffine { found: "a division by zero" }.at(&span)),
    }
}

fn constants(a: &Linear, b: &Linear, op_span: &ByteRange) -> Result<(i64, i64)> {
    match a.terms.is_empty() && b.terms.is_empty() {
        true => Ok((a.offset, b.offset)),
        false => Err(TextErrorKind::NotAffine { found: "a division" }.at(op_span)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i64) -> IndexExpr {
        IndexExpr { kind: IndexExprKind::Number(i128::from(value)), span: 0..1 }
    }

    fn product(first: IndexExpr, op: FactorOp, second: IndexExpr) -> IndexExpr {
        let kind = IndexExprKind::Product(Box::new(first), vec![(op, 1..2, second)]);
        IndexExpr { kind, span: 0..3 }
    }

    #[test]
    fn constants_divide_without_a_remainder() {
        let value = |a, op, b| product(number(a), op, number(b)).integer().ok().flatten();
        assert_eq!(value(12, FactorOp::Over, 4), Some(3));
        assert_eq!(value(12, FactorOp::Over, 5), None);
        assert_eq!(value(12, FactorOp::Over, 0), None);
        assert_eq!(value(i64::MIN, FactorOp::Over, -1), None);
        assert_eq!(value(-1, FactorOp::Modulo, 4), Some(3));
        assert_eq!(value(1, FactorOp::Modulo, 0), None);
    }

    #[test]
    fn letters_multiply_by_constants_only() {
        let i = || IndexExpr::letter("i", 0..1);
        let linear = product(i(), FactorOp::Times, number(3)).linear().expect("affine");
        assert_eq!((linear.terms[0].1, linear.offset), (3, 0));
        assert!(product(i(), FactorOp::Times, i()).linear().is_err());
        assert!(product(i(), FactorOp::Over, number(2)).linear().is_err());
    }
}
