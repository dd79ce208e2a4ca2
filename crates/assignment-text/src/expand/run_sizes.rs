//! Sizes that a run gives, and sizes that follow from these.

use tnode::{RunSize, SizeQuotient, SizeSum};

use super::scope::{Scope, twice};
use super::{Expansion, rewrite};
use crate::ast::SizeItem;
use crate::error::{LocatedError, Result, TextErrorKind};
use crate::linear::{Atom, FactorOp, IndexExpr, IndexExprKind, Linear};
use assignments::ByteRange;

/// A size that a run gives, or that follows from such sizes.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredSize {
    pub(crate) size: RunSize,
    name_span: ByteRange,
}

impl DeclaredSize {
    /// The declaration of the size under the name of its symbol, as text has it.
    pub(crate) fn item(&self) -> SizeItem {
        let span = &self.name_span;
        let (name, name_span) = (self.size.name().to_owned(), span.clone());
        let bound = assignments::indexing::extent(self.size.bound());
        match self.size.quotient() {
            None => {
                SizeItem { name, name_span, value: None, bound: Some(IndexExpr::number(bound, span.clone())) }
            }
            Some(quotient) => {
                SizeItem { name, name_span, value: Some(expression(quotient, span)), bound: None }
            }
        }
    }
}

/// A quotient as text has it, over the names of symbols.
fn expression(quotient: &SizeQuotient, span: &ByteRange) -> IndexExpr {
    let expr = |kind| IndexExpr { kind, span: span.clone() };
    let number = |value: i64| IndexExpr::number(value, span.clone());
    let times = |size: &RunSize, factor: i64| {
        let letter = IndexExpr::letter(size.name(), span.clone());
        match factor {
            1 => letter,
            _ => expr(IndexExprKind::Product(
                Box::new(number(factor)),
                vec![(FactorOp::Times, span.clone(), letter)],
            )),
        }
    };
    let SizeQuotient { dividend, divisor } = quotient;
    let mut terms: Vec<IndexExpr> = dividend.terms().map(|(size, factor)| times(size, factor)).collect();
    if dividend.offset() != 0 {
        terms.push(number(dividend.offset()));
    }
    let mut terms = terms.into_iter();
    let first = terms.next().unwrap_or_else(|| number(0));
    let others: Vec<(bool, IndexExpr)> = terms.map(|term| (false, term)).collect();
    let sum = match others.is_empty() {
        true => first,
        false => expr(IndexExprKind::Sum(Box::new(first), others)),
    };
    match divisor {
        1 => sum,
        _ => {
            let over = vec![(FactorOp::Over, span.clone(), number(*divisor))];
            expr(IndexExprKind::Product(Box::new(sum), over))
        }
    }
}

impl Expansion<'_> {
    /// Enters a size that a run gives or that follows from such sizes, under the name of its declaration.
    pub(super) fn run_size(&mut self, item: &SizeItem, size: RunSize, scope: &mut Scope) -> Result<()> {
        let SizeItem { name, name_span, .. } = item;
        let is_new = !scope.integers.contains_key(name) && !scope.run_sizes.contains_key(name);
        if !is_new {
            return Err(twice("size", name, name_span));
        }
        scope.run_sizes.insert(name.clone(), size.clone());
        if scope.frame.is_none() {
            self.run_sizes.insert(name.clone(), size.clone());
        }
        self.enter_sizes([size], name_span);
        Ok(())
    }

    /// Declares sizes, and those from which they follow, unless they are declared.
    pub(super) fn enter_sizes(&mut self, sizes: impl IntoIterator<Item = RunSize>, span: &ByteRange) {
        for size in sizes {
            size.each_source(&mut |size| {
                if self.expanded.sizes.iter().all(|known| known.size != *size) {
                    let (size, name_span) = (size.clone(), span.clone());
                    self.expanded.sizes.push(DeclaredSize { size, name_span });
                }
            });
        }
    }
}

impl Scope {
    /// The value of a size's declaration: an integer, or one that follows from sizes that a run gives. A
    /// quotient is rounded down.
    pub(super) fn size_sum(&self, value: &IndexExpr) -> Result<SizeSum> {
        let mut value = value.clone();
        rewrite::index(&mut value, self)?;
        self.sum(&value)
    }

    /// The size of the symbol of that name.
    fn size_of(&self, symbol: &str) -> Option<&RunSize> {
        self.run_sizes.values().find(|size| size.name() == symbol)
    }

    fn sum(&self, value: &IndexExpr) -> Result<SizeSum> {
        let known = |sum: Option<SizeSum>| sum.ok_or_else(|| overflow(&value.span));
        match &value.kind {
            IndexExprKind::Number(_)
            | IndexExprKind::Atom(_)
            | IndexExprKind::LetterSize(_)
            | IndexExprKind::AxisSize(_) => self.linear_sum(&value.linear()?),
            IndexExprKind::Negated(inner) => known(self.sum(inner)?.negated()),
            IndexExprKind::Sum(first, others) => {
                others.iter().try_fold(self.sum(first)?, |sum, (minus, term)| {
                    let term = self.sum(term)?;
                    let term = if *minus { known(term.negated())? } else { term };
                    known(sum.plus(&term))
                })
            }
            IndexExprKind::Product(first, others) => {
                others.iter().try_fold(self.sum(first)?, |product, (op, span, factor)| {
                    let factor = self.sum(factor)?;
                    match op {
                        FactorOp::Times if product.constant().is_none() && factor.constant().is_none() => {
                            Err(TextErrorKind::NotAffine { found: "a product of sizes" }.at(span))
                        }
                        FactorOp::Times => known(product.times(&factor)),
                        FactorOp::Over => floor_over(&product, &factor, span),
                        FactorOp::Modulo => {
                            let whole = floor_over(&product, &factor, span)?.times(&factor);
                            known(whole.and_then(|whole| product.plus(&whole.negated()?)))
                        }
                    }
                })
            }
        }
    }

    /// A sum of multiples of sizes.
    pub(super) fn linear_sum(&self, linear: &Linear) -> Result<SizeSum> {
        let start = SizeSum::from(linear.offset);
        linear.terms.iter().try_fold(start, |sum, (atom, factor, span)| {
            let size = match atom {
                Atom::Symbol(name) => self.size_of(name),
                Atom::Letter(_) => None,
            };
            let size = size.ok_or_else(|| TextErrorKind::NoInteger { name: atom.to_string() }.at(span))?;
            let term = SizeSum::from(size).times(&(*factor).into());
            term.and_then(|term| sum.plus(&term)).ok_or_else(|| overflow(span))
        })
    }
}

fn floor_over(dividend: &SizeSum, divisor: &SizeSum, span: &ByteRange) -> Result<SizeSum> {
    let divisor = divisor.constant().filter(|&divisor| divisor > 0).ok_or_else(|| {
        TextErrorKind::NotAffine { found: "a division of a size by another value than a positive number" }
            .at(span)
    })?;
    dividend.floor_over(divisor).ok_or_else(|| overflow(span))
}

fn overflow(span: &ByteRange) -> LocatedError {
    TextErrorKind::NotAffine { found: "a number that overflows" }.at(span)
}
