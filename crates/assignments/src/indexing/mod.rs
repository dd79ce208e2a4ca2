//! Indexing: maps the points of a product space to elements of the arrays that an assignment reads and
//! writes.
//!
//! An assignment iterates over a *product space* with one axis per letter of its statement. A *projection*
//! indexes each array of the assignment: it has one [`AxisIndex`] per dimension, an affine form of product
//! iterators and static symbols. One index of an array may be computed by an operand at run time.
//! Conditions can cut off a part of the product space ([`Projections::within`]).
//! [`Projections`] has these invariants: no product axis without a condition has extent 1 (its iterator is
//! replaced by 0), except in [`Projections::with_unit_axes`], every loop variable in an index is a product
//! iterator, ranks agree with dimensions, and no index depends on itself.

pub mod bounded_space;
pub mod concat;
mod coverage;
pub mod einsum;

use std::fmt;

pub use self::bounded_space::ConditionError;
use self::bounded_space::{BoundedSpace, PointRanges, SymbolRange};
pub(crate) use self::coverage::AxisSpan;
pub use self::coverage::{are_injective, are_surjective};
use smallvec::SmallVec;
use tnode::{Dims, RunSize, RunSizes, SizeQuotient};

use lowered_ir::ir::{Affine, LoopId, Quotient, SymbolId, Var, index_bounds};

/// A static symbol: an integer parameter of a routine, such as the number of a batch, bound at each run.
///
/// Symbols of the same name are the same symbol, and a program gives a name one range. A name with a dot is
/// that of a scan's letter, which the scan binds and not a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StaticSymbol {
    /// The name, without `@`.
    pub name: String,
    /// The symbol is bound to values in `0..range`. `None` stands for the largest range that keeps every
    /// access in bounds.
    pub range: Option<i64>,
    /// The size of axes that the symbol is; its values are from 1.
    pub size: Option<RunSize>,
}

impl StaticSymbol {
    /// A symbol that is bound to values in `0..range`.
    pub fn ranged(name: impl Into<String>, range: i64) -> StaticSymbol {
        StaticSymbol { name: name.into(), range: Some(range), size: None }
    }

    /// The size of axes.
    pub fn size(size: &RunSize) -> StaticSymbol {
        let range = extent(size.bound()).saturating_add(1);
        StaticSymbol { size: Some(size.clone()), ..StaticSymbol::ranged(size.name(), range) }
    }

    /// The least and the greatest value, if the range is known.
    pub fn interval(&self) -> Option<(i64, i64)> {
        self.range.map(|range| (i64::from(self.size.is_some()), range.max(1) - 1))
    }

    /// The range of a symbol of a list, if it is known.
    pub fn range_in(symbols: &[StaticSymbol], symbol: SymbolId) -> Option<SymbolRange> {
        let symbol = symbols.get(symbol.index())?;
        let quotient = symbol.size.as_ref().and_then(|size| StaticSymbol::quotient_in(symbols, size));
        Some(SymbolRange { interval: symbol.interval()?, quotient })
    }

    /// How a size follows from symbols of a list; none for a size that a run gives.
    pub fn quotient_in(symbols: &[StaticSymbol], size: &RunSize) -> Option<Quotient> {
        let SizeQuotient { dividend, divisor } = size.quotient()?;
        let place = |size: &RunSize| symbols.iter().position(|symbol| symbol.size.as_ref() == Some(size));
        let dividend =
            dividend.terms().try_fold(Affine::constant(dividend.offset()), |sum, (size, factor)| {
                Some(sum.plus(&Affine::term(SymbolId(place(size)? as u32), factor)))
            })?;
        Some(Quotient { dividend, divisor: *divisor })
    }

    /// The letter of a scan with that many steps. The number distinguishes scans with equal letters.
    pub fn step(letter: &str, number: usize, steps: i64) -> StaticSymbol {
        StaticSymbol::ranged(format!("{letter}.{number}"), steps)
    }

    /// The letter, if a scan binds the symbol.
    pub fn letter(&self) -> Option<&str> {
        step_letter(&self.name)
    }

    /// A symbol whose range is derived from its uses.
    pub fn open(name: impl Into<String>) -> StaticSymbol {
        StaticSymbol { name: name.into(), range: None, size: None }
    }
}

impl fmt::Display for StaticSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letter() {
            Some(letter) => f.write_str(letter),
            None => write!(f, "@{}", self.name),
        }
    }
}

/// The letter of a scan, if it binds the symbol of that name.
pub fn step_letter(symbol: &str) -> Option<&str> {
    symbol.rsplit_once('.').map(|(letter, _)| letter)
}

/// The index into one dimension of an array.
///
/// [`AxisIndex::new`] picks the simplest form, so that equal indices compare equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AxisIndex {
    /// A constant.
    Fixed(i64),
    /// A product iterator or static symbol alone.
    Iterator(Var),
    /// `offset + Σ coefficient · variable`, in none of the simpler forms.
    Affine(Affine),
    /// The integer value of the operand at that position, known at run time only.
    Computed(usize),
}

impl AxisIndex {
    /// The simplest form of an affine index.
    pub fn new(index: Affine) -> AxisIndex {
        match (index.as_constant(), index.as_var()) {
            (Some(i), _) => AxisIndex::Fixed(i),
            (None, Some(var)) => AxisIndex::Iterator(var),
            (None, None) => AxisIndex::Affine(index),
        }
    }

    /// The product iterator of axis `axis`. [`Projections::new`] replaces it by 0 if the axis has extent 1.
    pub fn axis(axis: usize) -> AxisIndex {
        AxisIndex::Iterator(Var::Loop(axis_iterator(axis)))
    }

    /// The index as an affine form; 0 for a computed index, as in the loop IR.
    pub fn affine(&self) -> Affine {
        match self {
            AxisIndex::Fixed(i) => Affine::constant(*i),
            AxisIndex::Iterator(var) => Affine::var(*var),
            AxisIndex::Affine(affine) => affine.clone(),
            AxisIndex::Computed(_) => Affine::constant(0),
        }
    }

    /// The position of the operand that computes the index, if one does.
    pub fn computed(&self) -> Option<usize> {
        match self {
            AxisIndex::Computed(operand) => Some(*operand),
            AxisIndex::Fixed(_) | AxisIndex::Iterator(_) | AxisIndex::Affine(_) => None,
        }
    }

    /// Applies `f` to the affine form; a computed index stays as it is.
    pub fn map(&self, f: impl FnOnce(Affine) -> Affine) -> AxisIndex {
        match self {
            AxisIndex::Computed(operand) => AxisIndex::Computed(*operand),
            AxisIndex::Fixed(_) | AxisIndex::Iterator(_) | AxisIndex::Affine(_) => {
                AxisIndex::new(f(self.affine()))
            }
        }
    }

    /// The product iterators that occur in the index, each with its coefficient.
    pub fn loop_terms(&self) -> SmallVec<[(LoopId, i64); 2]> {
        let affine = self.affine();
        let loops = affine.terms().iter().filter_map(|&(var, c)| match var {
            Var::Loop(id) => Some((id, c)),
            Var::Symbol(_) => None,
        });
        loops.collect()
    }
}

impl From<Affine> for AxisIndex {
    fn from(index: Affine) -> AxisIndex {
        AxisIndex::new(index)
    }
}

impl From<i64> for AxisIndex {
    fn from(index: i64) -> AxisIndex {
        AxisIndex::Fixed(index)
    }
}

/// One index per dimension of an array.
pub type Projection = SmallVec<[AxisIndex; 4]>;

/// The loop variable that projections use as the iterator of a product axis.
pub fn axis_iterator(axis: usize) -> LoopId {
    LoopId(u32::try_from(axis).unwrap_or(u32::MAX))
}

/// Converts an extent to the integer type of indices. Sizes of nodes are bounded by the address space, so the
/// conversion is exact.
pub fn extent(dim: usize) -> i64 {
    i64::try_from(dim).unwrap_or(i64::MAX)
}

/// The most operands of an operation.
const MAX_OPERANDS: usize = 3;

/// A product space and its projections to the arrays of one assignment.
///
/// Dimensions exclude padding; lowering shifts indices by the margins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Projections {
    product_space: Dims,
    product_iterators: SmallVec<[LoopId; 4]>,
    /// For each product axis, expressions over outer iterators and symbols that its iterator stays below.
    clips: SmallVec<[Vec<Affine>; 4]>,
    /// For each product axis, the size that a run gives, below which its iterator stays; empty if there are
    /// none. Axes that the iterator indexes alone may have such sizes too.
    run_sizes: RunSizes,
    lhs_dims: Dims,
    rhs_dims: Vec<Dims>,
    project_lhs: Projection,
    project_rhs: Vec<Projection>,
    /// For each of the operands of an operation, the first one that is [alike](Self::are_alike).
    alike: [u8; MAX_OPERANDS],
    /// See [`with_unit_axes`](Self::with_unit_axes).
    unit_axes: Option<Box<Projections>>,
    debug_info: String,
}

/// The dimensions of an array and its projection.
pub type Indexed = (Dims, Projection);

/// A reason why projections do not fit together.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum IndexError {
    /// The number of indices differs from the number of dimensions.
    #[error("{place} has dimensions {dims:?}, found {found} indices")]
    Rank { place: ArrayRole, dims: Dims, found: usize },
    /// An index has a loop variable that is no product iterator.
    #[error("{place} is indexed by {iterator}, which is none of the {axes} product iterators")]
    UnknownIterator { place: ArrayRole, iterator: LoopId, axes: usize },
    /// The operand that computes an index does not exist, or does not come after the array that it indexes.
    #[error("{place} has an index computed by operand {}, expected one of those after it, of {operands}", operand + 1)]
    NoOperand { place: ArrayRole, operand: usize, operands: usize },
    /// A condition cannot bound a loop.
    #[error("condition {} {why}", condition + 1)]
    Condition { condition: usize, why: ConditionError },
    /// An array has more than one computed index.
    #[error("{place} has {found} computed indices, expected at most one")]
    SeveralComputed { place: ArrayRole, found: usize },
}

/// The role of an array in an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayRole {
    /// The array that is written.
    Lhs,
    /// The operand at that position.
    Rhs(usize),
}

impl fmt::Display for ArrayRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayRole::Lhs => f.write_str("the left-hand side"),
            ArrayRole::Rhs(at) => write!(f, "operand {}", at + 1),
        }
    }
}

/// For each operand, the position of the first one with the same indices.
fn first_alike(rhs: &[Indexed]) -> [u8; MAX_OPERANDS] {
    std::array::from_fn(|at| {
        let first = (0..at).find(|&before| rhs.get(at).is_some_and(|(_, index)| *index == rhs[before].1));
        first.unwrap_or(at) as u8
    })
}

impl Projections {
    /// Makes projections over a product space with extents `axes`, outermost first. The iterator of axis `k`
    /// is [`axis_iterator`]`(k)`. `debug_info` describes the origin of the projections, for listings.
    ///
    /// Axes of extent 1 are removed and their iterators replaced by 0. An array has at most one computed
    /// index ([`AxisIndex::Computed`]), and the operand that computes it comes after the array, so that no
    /// index depends on itself.
    ///
    /// # Errors
    /// If a rank differs from the number of indices, an index has a variable that is no product iterator, or
    /// a computed index violates the rules above.
    pub fn new(
        axes: &[usize],
        lhs: Indexed,
        rhs: Vec<Indexed>,
        debug_info: impl Into<String>,
    ) -> Result<Projections, IndexError> {
        Projections::within(axes, &[], lhs, rhs, debug_info)
    }

    /// Like [`new`](Self::new), but assigns only at the points of the product space where every condition, an
    /// affine form of iterators and symbols, is at least 0: `i - j` for `j <= i`.
    ///
    /// An iterator that a condition bounds from below is replaced by its lower bound plus a count, so the
    /// variables in [`project_lhs`](Self::project_lhs) are counts of iterations.
    ///
    /// # Errors
    /// Like [`new`](Self::new), and [`IndexError::Condition`].
    pub fn within(
        axes: &[usize],
        conditions: &[Affine],
        lhs: Indexed,
        rhs: Vec<Indexed>,
        debug_info: impl Into<String>,
    ) -> Result<Projections, IndexError> {
        let is_axis = |id: LoopId| id.index() < axes.len();
        check(ArrayRole::Lhs, &lhs, axes.len(), is_axis)?;
        check_computed(rhs.len(), ArrayRole::Lhs, &lhs.1)?;
        for (at, operand) in rhs.iter().enumerate() {
            check(ArrayRole::Rhs(at), operand, axes.len(), is_axis)?;
            check_computed(rhs.len(), ArrayRole::Rhs(at), &operand.1)?;
        }
        let extents: Vec<i64> = axes.iter().map(|&dim| extent(dim)).collect();
        let bounded = BoundedSpace::new(&extents, conditions)
            .map_err(|(condition, why)| IndexError::Condition { condition, why })?;
        let is_conditional = |axis| conditions.iter().any(|c| c.mentions(axis_iterator(axis)));
        let is_iterated = |axis: usize| axes[axis] != 1 || is_conditional(axis);
        let has_window = rhs.iter().any(|(_, projection)| projection.iter().any(is_window));
        let is_unit = |axis: usize| !is_iterated(axis) && has_iterator(&lhs.1, axis_iterator(axis));
        let has_unit_axis = (0..axes.len()).any(is_unit);
        let debug_info = debug_info.into();
        let space = (axes, &bounded);
        let unit_axes = (has_window && has_unit_axis && conditions.is_empty()).then(|| {
            let is_kept = |axis| is_iterated(axis) || is_unit(axis);
            Box::new(Projections::over(space, is_kept, lhs.clone(), rhs.clone(), debug_info.clone()))
        });
        Ok(Projections { unit_axes, ..Projections::over(space, is_iterated, lhs, rhs, debug_info) })
    }

    /// Projections over some axes of a space. The iterators of the others are 0.
    fn over(
        (axes, bounded): (&[usize], &BoundedSpace),
        is_iterated: impl Fn(usize) -> bool,
        lhs: Indexed,
        rhs: Vec<Indexed>,
        debug_info: String,
    ) -> Projections {
        let iterating = || (0..axes.len()).filter(|&axis| is_iterated(axis));
        let iterated: Vec<LoopId> = iterating().map(axis_iterator).collect();
        let counted = |projection: &[AxisIndex]| in_counts(projection, bounded, &iterated);
        let alike = first_alike(&rhs);
        let (rhs_dims, project_rhs) = rhs.into_iter().map(|(dims, p)| (dims, counted(&p))).unzip();
        Projections {
            product_space: iterating().map(|axis| axes[axis]).collect(),
            product_iterators: iterating().map(axis_iterator).collect(),
            clips: iterating().map(|axis| bounded.clips()[axis].clone()).collect(),
            run_sizes: RunSizes::new(),
            project_lhs: counted(&lhs.1),
            lhs_dims: lhs.0,
            rhs_dims,
            project_rhs,
            alike,
            unit_axes: None,
            debug_info,
        }
    }

    /// Whether two operands of the operation have the same indices, also if axes of extent 1 have other
    /// extents: `v[i]` and `v[j]` are not alike, although both are `v[0]` if `v` has one element.
    pub fn are_alike(&self, a: usize, b: usize) -> bool {
        self.alike.get(a) == self.alike.get(b)
    }

    /// These projections with the axes of extent 1 that the array written has, and their iterators in the
    /// indices: in `y[i] :+= x[2*i + d] * f[d]` for a single `i`, the index of `x` is `2*i + d` instead of
    /// `d`. There are such projections only if [`new`](Self::new) removed such an axis, and an operand is
    /// read in windows. The gradient of the window then is the same sum, in the same order, as for more
    /// elements.
    pub fn with_unit_axes(&self) -> Option<&Projections> {
        self.unit_axes.as_deref()
    }

    /// The projections of a pointwise operation, in which every array has the same dimensions.
    pub fn pointwise(dims: &[usize], operands: usize) -> Projections {
        let identity = identity_projections(dims);
        let indexed = |_| (Dims::from_slice(dims), identity.clone());
        let rhs = (0..operands).map(indexed).collect();
        Projections::new(dims, indexed(0), rhs, "pointwise")
            .expect("the identity has an iterator per axis and nothing else")
    }

    /// Projections over the same points to other arrays, such as those of a statement derived from this one.
    /// Indices may have the iterators in [`product_iterators`](Self::product_iterators) only.
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    pub fn with_arrays(
        &self,
        lhs: Indexed,
        rhs: Vec<Indexed>,
        debug_info: impl Into<String>,
    ) -> Result<Projections, IndexError> {
        let roles = std::iter::once(ArrayRole::Lhs).chain((0..rhs.len()).map(ArrayRole::Rhs));
        for (place, array) in roles.zip(std::iter::once(&lhs).chain(&rhs)) {
            check(place, array, self.product_iterators.len(), |id| self.product_iterators.contains(&id))?;
            check_computed(rhs.len(), place, &array.1)?;
        }
        let alike = first_alike(&rhs);
        let (rhs_dims, project_rhs) = rhs.into_iter().unzip();
        Ok(Projections {
            lhs_dims: lhs.0,
            project_lhs: lhs.1,
            rhs_dims,
            project_rhs,
            alike,
            unit_axes: None,
            debug_info: debug_info.into(),
            ..self.clone()
        })
    }

    /// The same points with the product axes in another order: `axes` has the position of each axis, the
    /// outermost first. `None` if conditions cut off a part of the product space, since a condition mentions
    /// iterators of outer axes only.
    pub fn reordered(&self, axes: &[usize]) -> Option<Projections> {
        (!self.is_clipped()).then(|| Projections {
            product_space: axes.iter().map(|&axis| self.product_space[axis]).collect(),
            product_iterators: axes.iter().map(|&axis| self.product_iterators[axis]).collect(),
            run_sizes: axes.iter().filter_map(|&axis| self.run_sizes.get(axis).cloned()).collect(),
            unit_axes: None,
            ..self.clone()
        })
    }

    /// The points once for each index of a further product axis, the outermost one. It is the first axis of
    /// those arrays that `lhs` and `rhs` select, and the others have the same elements for all its indices.
    #[must_use]
    pub fn with_outer_axis(&self, extent: usize, lhs: bool, rhs: &[bool]) -> Projections {
        let mut projections = Projections { unit_axes: None, ..self.clone() };
        let next = self.product_iterators.iter().map(|iterator| iterator.index() + 1).max().unwrap_or(0);
        let index = match extent {
            1 => AxisIndex::Fixed(0),
            _ => AxisIndex::axis(next),
        };
        if extent != 1 {
            projections.product_space.insert(0, extent);
            projections.product_iterators.insert(0, axis_iterator(next));
            projections.clips.insert(0, Vec::new());
            if !projections.run_sizes.is_empty() {
                projections.run_sizes.insert(0, None);
            }
        }
        let arrays = projections.rhs_dims.iter_mut().zip(&mut projections.project_rhs).zip(rhs);
        let arrays = arrays.filter_map(|(array, is_selected)| is_selected.then_some(array));
        let target = lhs.then_some((&mut projections.lhs_dims, &mut projections.project_lhs));
        for (dims, indices) in arrays.chain(target) {
            dims.insert(0, extent);
            indices.insert(0, index.clone());
        }
        projections
    }

    /// The same points where every expression over symbols is at least 0: a further product axis, the
    /// outermost one, whose iterator is 0 there and has no value elsewhere. An index from which it is
    /// subtracted is then proven not to be negative.
    #[must_use]
    pub fn with_guard(&self, conditions: &[Affine]) -> (Projections, LoopId) {
        let mut projections = Projections { unit_axes: None, ..self.clone() };
        let next = self.product_iterators.iter().map(|iterator| iterator.index() + 1).max().unwrap_or(0);
        projections.product_space.insert(0, 1);
        projections.product_iterators.insert(0, axis_iterator(next));
        projections.clips.insert(0, conditions.iter().map(|condition| condition.plus_constant(1)).collect());
        if !projections.run_sizes.is_empty() {
            projections.run_sizes.insert(0, None);
        }
        (projections, axis_iterator(next))
    }

    /// The same points below the sizes that a run gives to iterators. Such a size is at most the extent of
    /// its axis, and all else holds for the points of the extents.
    #[must_use]
    pub fn with_run_sizes(mut self, size: impl Fn(LoopId) -> Option<RunSize>) -> Projections {
        self.run_sizes = self.product_iterators.iter().map(|&iterator| size(iterator)).collect();
        if self.run_sizes.iter().all(Option::is_none) {
            self.run_sizes.clear();
        }
        self
    }

    /// The sizes of [`with_run_sizes`](Self::with_run_sizes), each with its iterator.
    pub fn run_sizes(&self) -> impl Iterator<Item = (LoopId, &RunSize)> {
        let sizes = self.product_iterators.iter().zip(&self.run_sizes);
        sizes.filter_map(|(&iterator, size)| Some((iterator, size.as_ref()?)))
    }

    /// The extents of the product axes, outermost first; none without a condition is 1.
    pub fn product_space(&self) -> &[usize] {
        &self.product_space
    }

    /// The iterator of each product axis.
    pub fn product_iterators(&self) -> &[LoopId] {
        &self.product_iterators
    }

    /// For each product axis, expressions over the iterators of outer axes and over symbols that its iterator
    /// stays below.
    pub fn clips(&self) -> &[Vec<Affine>] {
        &self.clips
    }

    /// Whether conditions cut off a part of the product space.
    pub fn is_clipped(&self) -> bool {
        self.clips.iter().any(|clips| !clips.is_empty())
    }

    /// The least and the greatest value of an index at the points of the product space; `None` if they
    /// overflow. A symbol of which `symbols` gives no range counts as 0, and the clips that mention it are
    /// ignored.
    pub fn index_bounds(
        &self,
        index: &Affine,
        symbols: &dyn Fn(SymbolId) -> Option<SymbolRange>,
    ) -> Option<(i64, i64)> {
        self.index_bounds_within(index, &[], symbols)
    }

    /// [`index_bounds`](Self::index_bounds), where some iterators stay below further expressions, such as the
    /// symbols of their [`run_sizes`](Self::run_sizes).
    pub fn index_bounds_within(
        &self,
        index: &Affine,
        ends: &[(LoopId, Affine)],
        symbols: &dyn Fn(SymbolId) -> Option<SymbolRange>,
    ) -> Option<(i64, i64)> {
        let mut iterated =
            ends.iter().filter(|(iterator, _)| self.product_iterators.contains(iterator)).peekable();
        let has_symbol = index.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)));
        if iterated.peek().is_none() && !self.is_clipped() && !has_symbol {
            return index.bounds(|var| match var {
                Var::Loop(id) => (0, extent(self.extent_of(id).max(1)) - 1),
                Var::Symbol(_) => (0, 0),
            });
        }
        let axes = self.product_iterators.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        let (mut extents, mut clips) = (vec![1; axes], vec![Vec::new(); axes]);
        for (at, iterator) in self.product_iterators.iter().enumerate() {
            extents[iterator.index()] = extent(self.product_space[at]);
            clips[iterator.index()].clone_from(&self.clips[at]);
        }
        iterated.for_each(|(iterator, end)| clips[iterator.index()].push(end.clone()));
        index_bounds(index, &PointRanges::new(&extents, &clips, symbols))
    }

    /// The dimensions of the array written.
    pub fn lhs_dims(&self) -> &[usize] {
        &self.lhs_dims
    }

    /// The dimensions of each operand.
    pub fn rhs_dims(&self) -> &[Dims] {
        &self.rhs_dims
    }

    /// The projection of the array written.
    pub fn project_lhs(&self) -> &[AxisIndex] {
        &self.project_lhs
    }

    /// The projection of each operand.
    pub fn project_rhs(&self) -> &[Projection] {
        &self.project_rhs
    }

    /// A description of the origin of the projections.
    pub fn debug_info(&self) -> &str {
        &self.debug_info
    }

    /// The extent of a product iterator; 1 if its axis was removed.
    pub fn extent_of(&self, iterator: LoopId) -> usize {
        let at = self.product_iterators.iter().position(|&i| i == iterator);
        at.map_or(1, |at| self.product_space[at])
    }

    /// Replaces the affine form of every index by `f` of it, for instance to renumber symbols.
    pub fn map_indices(&mut self, mut f: impl FnMut(Affine) -> Affine) {
        self.map_all_indices(&mut f);
    }

    fn map_all_indices(&mut self, f: &mut dyn FnMut(Affine) -> Affine) {
        let indices = self.project_lhs.iter_mut().chain(self.project_rhs.iter_mut().flatten());
        for index in indices {
            *index = index.map(&mut *f);
        }
        self.clips.iter_mut().flatten().for_each(|clip| *clip = f(clip.clone()));
        if let Some(projections) = &mut self.unit_axes {
            projections.map_all_indices(f);
        }
    }
}

/// Whether an index mentions an iterator.
fn has_iterator(projection: &[AxisIndex], id: LoopId) -> bool {
    projection.iter().any(|index| index.affine().mentions(id))
}

/// Whether iterators in an index are terms of a sum, or have a step or an offset.
fn is_window(index: &AxisIndex) -> bool {
    matches!(index, AxisIndex::Affine(_)) && !index.loop_terms().is_empty()
}

/// Checks the rank of an array, and that the product space, of `axes` axes, has the iterators of its indices.
fn check(
    place: ArrayRole,
    (dims, projection): &Indexed,
    axes: usize,
    has_iterator: impl Fn(LoopId) -> bool,
) -> Result<(), IndexError> {
    if dims.len() != projection.len() {
        return Err(IndexError::Rank { place, dims: dims.clone(), found: projection.len() });
    }
    let mut loops = projection.iter().flat_map(|index| index.loop_terms());
    match loops.find(|&(id, _)| !has_iterator(id)) {
        Some((iterator, _)) => Err(IndexError::UnknownIterator { place, iterator, axes }),
        None => Ok(()),
    }
}

fn check_computed(operands: usize, place: ArrayRole, projection: &[AxisIndex]) -> Result<(), IndexError> {
    let first = match place {
        ArrayRole::Lhs => 0,
        ArrayRole::Rhs(at) => at + 1,
    };
    let computed: SmallVec<[usize; 2]> = projection.iter().filter_map(AxisIndex::computed).collect();
    match computed.as_slice() {
        [] => Ok(()),
        [operand] if (first..operands).contains(operand) => Ok(()),
        [operand] => Err(IndexError::NoOperand { place, operand: *operand, operands }),
        several => Err(IndexError::SeveralComputed { place, found: several.len() }),
    }
}

/// Replaces the iterators of axes that are not iterated by 0, and other iterators by their values in terms of
/// counts.
fn in_counts(projection: &[AxisIndex], space: &BoundedSpace, iterated: &[LoopId]) -> Projection {
    let zero = Affine::constant(0);
    let fix = |index: &AxisIndex| {
        index.map(|affine| {
            let trivial = affine.terms().iter().filter_map(|&(var, _)| match var {
                Var::Loop(id) if !iterated.contains(&id) => Some(id),
                _ => None,
            });
            let live = trivial.fold(affine.clone(), |index, id| index.substitute(id, &zero));
            space.value(&live).unwrap_or(live)
        })
    };
    projection.iter().map(fix).collect()
}

/// The projection that indexes dimension `k` by product axis `k`; the index of a dimension of size 1 is 0.
pub fn identity_projections(dims: &[usize]) -> Projection {
    let index =
        |(axis, &dim): (usize, &usize)| if dim == 1 { AxisIndex::Fixed(0) } else { AxisIndex::axis(axis) };
    dims.iter().enumerate().map(index).collect()
}

/// The row-major offset, in elements, of the element at `projection` in an array of dimensions `dims`.
pub(crate) fn reflect_projection(dims: &[usize], projection: &[AxisIndex]) -> Affine {
    dims.iter()
        .zip(projection)
        .fold(Affine::constant(0), |offset, (&dim, index)| offset.times(extent(dim)).plus(&index.affine()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affine(terms: &[(usize, i64)], offset: i64) -> Affine {
        terms
            .iter()
            .fold(Affine::constant(offset), |sum, &(axis, c)| sum.plus(&Affine::term(axis_iterator(axis), c)))
    }

    #[test]
    fn equal_terms_merge_and_degenerate_forms_fold() {
        let twice = affine(&[(0, 1), (0, 1)], 0);
        assert_eq!(AxisIndex::new(twice.clone()), AxisIndex::Affine(affine(&[(0, 2)], 0)));
        assert_eq!(AxisIndex::new(twice.plus(&affine(&[(0, -2)], 3))), AxisIndex::Fixed(3));
        assert_eq!(AxisIndex::new(twice.plus(&affine(&[(0, -1)], 0))), AxisIndex::axis(0));
    }

    #[test]
    fn axes_of_extent_1_vanish() {
        let lhs = (Dims::from_slice(&[1, 5]), identity_projections(&[2, 5]));
        let p = Projections::new(&[1, 5], lhs, vec![], "").unwrap();
        assert_eq!(p.project_lhs(), [AxisIndex::Fixed(0), AxisIndex::axis(1)]);
        assert_eq!((p.product_space(), p.product_iterators()), (&[5][..], &[LoopId(1)][..]));
    }

    /// Bounds of indices do not depend on the order of the axes. Conditions fix the order.
    #[test]
    fn axes_have_another_order() {
        let lhs = || (Dims::from_slice(&[2, 5, 3]), identity_projections(&[2, 5, 3]));
        let p = Projections::new(&[2, 5, 3], lhs(), vec![], "").unwrap();
        let reordered = p.reordered(&[2, 0, 1]).expect("there are no conditions");
        assert_eq!(reordered.product_space(), [3, 2, 5]);
        assert_eq!(reordered.product_iterators(), [LoopId(2), LoopId(0), LoopId(1)]);
        assert_eq!(reordered.project_lhs(), p.project_lhs());
        let index = affine(&[(0, 7), (2, 1)], 1);
        assert_eq!(reordered.index_bounds(&index, &|_| None), Some((1, 10)));
        assert_eq!(p.index_bounds(&index, &|_| None), Some((1, 10)));
        let triangle = [affine(&[(0, 1), (1, -1)], 0)];
        let clipped = Projections::within(&[2, 5, 3], &triangle, lhs(), vec![], "").unwrap();
        assert_eq!(clipped.reordered(&[2, 0, 1]), None);
    }

    #[test]
    fn the_offset_is_row_major() {
        let p = identity_projections(&[2, 3, 4]);
        assert_eq!(reflect_projection(&[2, 3, 4], &p), affine(&[(0, 12), (1, 4), (2, 1)], 0));
        assert_eq!(reflect_projection(&[], &[]), Affine::constant(0));
    }

    #[test]
    fn computed_indices_come_from_later_operands() {
        let new = |lhs: &[AxisIndex], operand: AxisIndex| {
            let lhs = (Dims::from_elem(4, lhs.len()), lhs.iter().cloned().collect());
            let operand = (Dims::from_slice(&[4]), Projection::from_iter([operand]));
            let error = Projections::new(&[4], lhs, vec![operand], "").map(|_| ());
            error.map_err(|error| error.to_string())
        };
        let (computed, plain) = (AxisIndex::Computed(0), AxisIndex::axis(0));
        assert_eq!(new(std::slice::from_ref(&computed), plain.clone()), Ok(()));
        let itself = new(std::slice::from_ref(&plain), computed.clone()).unwrap_err();
        assert_eq!(
            itself,
            "operand 1 has an index computed by operand 1, expected one of those after it, of 1"
        );
        let two = new(&[computed.clone(), computed], plain).unwrap_err();
        assert_eq!(two, "the left-hand side has 2 computed indices, expected at most one");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let lhs = (Dims::from_slice(&[5]), identity_projections(&[5, 5]));
        let error = Projections::new(&[5, 5], lhs, vec![], "").unwrap_err();
        assert_eq!(error.to_string(), "the left-hand side has dimensions [5], found 2 indices");
        let lhs = (Dims::from_slice(&[5]), Projection::from_iter([AxisIndex::axis(3)]));
        let error = Projections::new(&[5], lhs, vec![], "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the left-hand side is indexed by i3, which is none of the 1 product iterators"
        );
    }
}
