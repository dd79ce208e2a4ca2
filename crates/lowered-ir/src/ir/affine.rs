//! Affine index expressions over loop variables and static symbols, and guards, which are conditions on such
//! indices.

use std::fmt;

use smallvec::SmallVec;

use super::{LoopId, SymbolId};

/// A variable that may stand in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Var {
    /// A loop variable.
    Loop(LoopId),
    /// A static symbol, bound at run time.
    Symbol(SymbolId),
}

impl From<LoopId> for Var {
    fn from(id: LoopId) -> Self {
        Var::Loop(id)
    }
}

impl From<SymbolId> for Var {
    fn from(id: SymbolId) -> Self {
        Var::Symbol(id)
    }
}

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Var::Loop(id) => id.fmt(f),
            Var::Symbol(id) => id.fmt(f),
        }
    }
}

/// `offset + Σ coefficient · variable`, kept normal: terms sorted by variable, each variable once, no zero
/// coefficient.
///
/// Arithmetic wraps like `i64`; the verifier bounds every index by the ranges of its variables, so verified
/// indices never wrap.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affine {
    terms: SmallVec<[(Var, i64); 2]>,
    offset: i64,
}

// The terms are copied as memory; `SmallVec::clone` would copy them one by one.
impl Clone for Affine {
    #[inline]
    fn clone(&self) -> Affine {
        Affine { terms: SmallVec::from_slice(&self.terms), offset: self.offset }
    }
}

impl Affine {
    /// An index without variables, equal to `offset`.
    pub fn constant(offset: i64) -> Self {
        Affine { terms: SmallVec::new(), offset }
    }

    /// The index that is just `var`.
    pub fn var(var: impl Into<Var>) -> Self {
        Affine::term(var, 1)
    }

    /// `coefficient · var`.
    pub fn term(var: impl Into<Var>, coefficient: i64) -> Self {
        let mut index = Affine::default();
        index.add_term(var.into(), coefficient);
        index
    }

    /// The terms, sorted by variable; no coefficient is zero.
    pub fn terms(&self) -> &[(Var, i64)] {
        &self.terms
    }

    /// The term without a variable.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The value of an index that mentions no variable; `None` if it mentions one.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// The variable `v`, if this index is `1·v + 0`; otherwise `None`.
    pub fn as_var(&self) -> Option<Var> {
        match self.terms.as_slice() {
            [(var, 1)] if self.offset == 0 => Some(*var),
            _ => None,
        }
    }

    /// The coefficient of `var`; 0 where it does not occur.
    pub fn coefficient(&self, var: impl Into<Var>) -> i64 {
        let var = var.into();
        self.terms.iter().find(|(v, _)| *v == var).map_or(0, |&(_, c)| c)
    }

    /// Whether `var` occurs.
    pub fn mentions(&self, var: impl Into<Var>) -> bool {
        self.coefficient(var) != 0
    }

    /// `self + other`.
    pub fn plus(&self, other: &Affine) -> Affine {
        let mut sum = self.clone();
        sum.offset = sum.offset.wrapping_add(other.offset);
        for &(var, coefficient) in &other.terms {
            sum.add_term(var, coefficient);
        }
        sum
    }

    /// `self + offset`.
    pub fn plus_constant(&self, offset: i64) -> Affine {
        Affine { offset: self.offset.wrapping_add(offset), ..self.clone() }
    }

    /// `factor · self`.
    pub fn times(&self, factor: i64) -> Affine {
        let mut product = Affine::constant(self.offset.wrapping_mul(factor));
        for &(var, coefficient) in &self.terms {
            product.add_term(var, coefficient.wrapping_mul(factor));
        }
        product
    }

    /// The row-major position of the element at `index` in an array of dimensions `dims`, in elements.
    pub fn row_major(index: &[Affine], dims: &[usize]) -> Affine {
        index.iter().zip(dims).fold(Affine::constant(0), |at, (i, &dim)| at.times(dim as i64).plus(i))
    }

    /// `self` with every occurrence of `var` replaced by `by`.
    pub fn substitute(&self, var: impl Into<Var>, by: &Affine) -> Affine {
        let var = var.into();
        let coefficient = self.coefficient(var);
        if coefficient == 0 {
            return self.clone();
        }
        let mut sum = self.clone();
        sum.add_term(var, coefficient.wrapping_neg());
        sum.offset = sum.offset.wrapping_add(by.offset.wrapping_mul(coefficient));
        by.terms.iter().for_each(|&(var, factor)| sum.add_term(var, factor.wrapping_mul(coefficient)));
        sum
    }

    /// Replaces each variable by its image.
    pub fn rename(&mut self, mut f: impl FnMut(Var) -> Var) {
        self.terms.iter_mut().for_each(|(var, _)| *var = f(*var));
        if !self.terms.is_sorted_by(|(a, _), (b, _)| a < b) {
            let terms = std::mem::take(&mut self.terms);
            terms.into_iter().for_each(|(var, coefficient)| self.add_term(var, coefficient));
        }
    }

    /// `self + other`; `None` on overflow.
    pub fn checked_plus(&self, other: &Affine) -> Option<Affine> {
        let mut sum = self.clone();
        sum.offset = sum.offset.checked_add(other.offset)?;
        for &(var, coefficient) in &other.terms {
            self.coefficient(var).checked_add(coefficient)?;
            sum.add_term(var, coefficient);
        }
        Some(sum)
    }

    /// `factor · self`; `None` on overflow.
    pub fn checked_times(&self, factor: i64) -> Option<Affine> {
        let fits = |x: i64| x.checked_mul(factor).is_some();
        (fits(self.offset) && self.terms.iter().all(|&(_, c)| fits(c))).then(|| self.times(factor))
    }

    /// `self` with every occurrence of `var` replaced by `by`; `None` on overflow.
    pub(crate) fn checked_substitute(&self, var: impl Into<Var>, by: &Affine) -> Option<Affine> {
        let var = var.into();
        let mut rest = self.clone();
        rest.terms.retain(|(v, _)| *v != var);
        rest.checked_plus(&by.checked_times(self.coefficient(var))?)
    }

    /// The value under an assignment of its variables.
    pub fn eval(&self, mut value: impl FnMut(Var) -> i64) -> i64 {
        self.terms.iter().fold(self.offset, |sum, &(var, c)| sum.wrapping_add(c.wrapping_mul(value(var))))
    }

    /// The least and greatest value if each variable takes all values of the closed interval that `range`
    /// gives for it; `None` on overflow.
    pub fn bounds(&self, mut range: impl FnMut(Var) -> (i64, i64)) -> Option<(i64, i64)> {
        let mut bounds = (self.offset, self.offset);
        for &(var, c) in &self.terms {
            let (lo, hi) = range(var);
            let (a, b) = (c.checked_mul(lo)?, c.checked_mul(hi)?);
            bounds = (bounds.0.checked_add(a.min(b))?, bounds.1.checked_add(a.max(b))?);
        }
        Some(bounds)
    }

    /// Adds `coefficient · var`, keeping the form normal.
    pub fn add_term(&mut self, var: Var, coefficient: i64) {
        match self.terms.binary_search_by_key(&var, |&(v, _)| v) {
            Ok(at) => {
                self.terms[at].1 = self.terms[at].1.wrapping_add(coefficient);
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(_) if coefficient == 0 => {}
            Err(at) => self.terms.insert(at, (var, coefficient)),
        }
    }
}

impl From<i64> for Affine {
    fn from(offset: i64) -> Self {
        Affine::constant(offset)
    }
}

impl From<LoopId> for Affine {
    fn from(id: LoopId) -> Self {
        Affine::var(id)
    }
}

/// The condition `lo <= index < hi`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The index that is compared.
    pub index: Affine,
    /// The least value that passes.
    pub lo: i64,
    /// One more than the greatest value that passes.
    pub hi: i64,
}

/// A conjunction of ranges; the empty guard is true. Guards are rare, so they are never kept inline.
pub type Guard = SmallVec<[Range; 0]>;
