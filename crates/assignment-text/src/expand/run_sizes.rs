//! Sizes that a run gives, and sizes that follow from these.

use tnode::{DType, RunSize, SizeQuotient, SizeSum};

use super::scope::{Scope, twice};
use super::{Expansion, rewrite};
use crate::ast::{Expr, ExprKind, SizeItem};
use crate::error::{LocatedError, Result, TextErrorKind};
use crate::linear::{Atom, FactorOp, IndexExpr, IndexExprKind, Linear};
use crate::number::Number;
use assignments::ByteRange;
use lowered_ir::ir::BinaryOp;

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
    let SizeQuotient { dividend, divisor } = quotient;
    let letter = |size: &RunSize| IndexExpr::letter(size.name(), span.clone());
    let terms = dividend.terms().map(|(size, factor)| (letter(size), factor));
    let sum = sum_of(terms, dividend.offset(), span);
    match divisor {
        1 => sum,
        _ => {
            let over = vec![(FactorOp::Over, span.clone(), IndexExpr::number(*divisor, span.clone()))];
            IndexExpr { kind: IndexExprKind::Product(Box::new(sum), over), span: span.clone() }
        }
    }
}

/// The sum of multiples of expressions and of a number.
fn sum_of(terms: impl Iterator<Item = (IndexExpr, i64)>, offset: i64, span: &ByteRange) -> IndexExpr {
    let expr = |kind| IndexExpr { kind, span: span.clone() };
    let number = |value: i64| IndexExpr::number(value, span.clone());
    let times = |(term, factor): (IndexExpr, i64)| match factor {
        1 => term,
        _ => {
            let by = vec![(FactorOp::Times, span.clone(), term)];
            expr(IndexExprKind::Product(Box::new(number(factor)), by))
        }
    };
    let mut terms: Vec<IndexExpr> = terms.map(times).collect();
    if offset != 0 {
        terms.push(number(offset));
    }
    let mut terms = terms.into_iter();
    let first = terms.next().unwrap_or_else(|| number(0));
    let others: Vec<(bool, IndexExpr)> = terms.map(|term| (false, term)).collect();
    match others.is_empty() {
        true => first,
        false => expr(IndexExprKind::Sum(Box::new(first), others)),
    }
}

/// A number that a run gives: a sum of multiples of sizes whose least value is 1, so that each has a symbol.
#[derive(Clone, Debug)]
pub(crate) struct SymbolSum {
    pub(crate) terms: Vec<(RunSize, i64)>,
    pub(crate) offset: i64,
    /// The greatest value.
    pub(crate) bound: i64,
}

impl SymbolSum {
    /// The sum over such sizes: a quotient that may be 0 is the size that is one more, minus 1. None if a
    /// number overflows.
    fn of(sum: &SizeSum) -> Option<SymbolSum> {
        let bound = i64::try_from(sum.range().1).ok()?;
        let mut found = SymbolSum { terms: Vec::new(), offset: sum.offset(), bound };
        for (size, factor) in sum.terms() {
            let least = SizeSum::from(size).range().0;
            let more = i64::try_from(1i128.checked_sub(least)?.max(0)).ok()?;
            found.offset = found.offset.checked_sub(more.checked_mul(factor)?)?;
            found.terms.push((SizeSum::from(size).plus(&more.into())?.size()?, factor));
        }
        Some(found)
    }

    /// The sum as an index over symbols.
    pub(crate) fn index(&self, span: &ByteRange) -> IndexExpr {
        let symbol = |size: &RunSize| IndexExpr::atom(Atom::Symbol(size.name().to_owned()), span.clone());
        let terms = self.terms.iter().map(|(size, factor)| (symbol(size), *factor));
        sum_of(terms, self.offset, span)
    }

    /// The sum as a value of a type of integers.
    pub(crate) fn value(&self, dtype: DType, span: &ByteRange) -> Result<Expr> {
        let expr = |kind| Expr::new(kind, span.clone());
        let number = |value: i64| expr(ExprKind::Number(Number::integer(value)));
        let start = number(self.offset)?;
        self.terms.iter().try_fold(start, |sum, (size, factor)| {
            let symbol = expr(ExprKind::Symbol(size.name().to_owned()))?;
            let symbol = expr(ExprKind::Cast(dtype, Box::new(symbol)))?;
            let term = ExprKind::Binary(BinaryOp::Mul, Box::new(symbol), Box::new(number(*factor)?));
            expr(ExprKind::Binary(BinaryOp::Add, Box::new(sum), Box::new(expr(term)?)))
        })
    }
}

impl Expansion<'_> {
    /// Declares the sizes in whose symbols a statement was rewritten.
    pub(super) fn enter_named(&mut self, scope: &Scope, span: &ByteRange) {
        let named = std::mem::take(&mut *scope.named.borrow_mut());
        self.enter_sizes(named, span);
    }

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
        rewrite::names(&mut value, self)?;
        self.sum(&value)
    }

    /// Whether an expression mentions a size that a run gives, or would give if the caller did not, or one
    /// that follows from such sizes.
    pub(super) fn mentions_sizes(&self, value: &IndexExpr) -> bool {
        let mut found = false;
        value.each_atom(&mut |atom, _| {
            found |= match atom {
                Atom::Letter(name) => self.run_sizes.contains_key(name) || self.bound.contains(name),
                Atom::Symbol(name) => self.size_of(name).is_some(),
            }
        });
        found
    }

    /// The sum of sizes that an expression of sizes alone is, with symbols for its sizes.
    pub(super) fn symbol_sum(&self, value: &IndexExpr) -> Option<SymbolSum> {
        let sum = self.mentions_sizes(value).then(|| self.size_sum(value).ok())??;
        let found = SymbolSum::of(&sum)?;
        self.named.borrow_mut().extend(found.terms.iter().map(|(size, _)| size.clone()));
        Some(found)
    }

    /// The size that an expression of sizes is, if it has a quotient or no value of 0 or less. A sum that may
    /// be 0, such as `n - 1`, bounds loops without being a size, which has at least one element.
    pub(super) fn derived_size(&self, value: &IndexExpr) -> Option<RunSize> {
        let sum = self.mentions_sizes(value).then(|| self.size_sum(value).ok())??;
        (value.divides() || sum.range().0 >= 1).then(|| sum.size()).flatten()
    }

    /// The name of the symbol of a size, which the program enters.
    pub(super) fn name(&self, size: RunSize) -> String {
        let name = size.name().to_owned();
        self.named.borrow_mut().push(size);
        name
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
