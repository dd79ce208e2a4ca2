//! Indexing: how the points of a product space reach the elements of the arrays an assignment reads and
//! writes.
//!
//! An assignment runs over a *product space*: one axis per letter of its statement. Each array it mentions is
//! indexed by a *projection*, one [`AxisIndex`] per dimension, made of product iterators and static symbols;
//! one of them may be computed by an operand when the routine runs. Invariants of [`Projections`]: no product
//! axis has extent 1 (such iterators are 0 and vanish), every loop variable in an index is a product
//! iterator, ranks agree with dimensions, and no index depends on itself.

pub(crate) mod concat;
mod coverage;
pub mod einsum;
mod window;

use std::fmt;

pub(crate) use self::coverage::{AxisSpan, are_injective, are_surjective};
pub use self::window::Window;
use smallvec::SmallVec;
use tnode::Dims;

use lowered_ir::ir::{Affine, LoopId, Var};

/// A static symbol: an integer that is bound each time a routine runs, such as the number of a batch.
///
/// Two symbols are the same if they have the same name; one program gives a name one range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StaticSymbol {
    /// The name, without `@`.
    pub name: String,
    /// Bindings are `0..range`; `None` means the largest range for which every access is in bounds.
    pub range: Option<i64>,
}

impl StaticSymbol {
    /// A symbol whose bindings are `0..range`.
    pub fn ranged(name: impl Into<String>, range: i64) -> StaticSymbol {
        StaticSymbol { name: name.into(), range: Some(range) }
    }

    /// A symbol whose range follows from its uses.
    pub fn open(name: impl Into<String>) -> StaticSymbol {
        StaticSymbol { name: name.into(), range: None }
    }
}

impl fmt::Display for StaticSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.name)
    }
}

/// The index of one dimension of one array.
///
/// Build it with [`AxisIndex::new`], which picks the simplest form, so equal indices are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AxisIndex {
    /// Always the same element.
    Fixed(i64),
    /// A product iterator or static symbol as it is.
    Iterator(Var),
    /// `offset + Σ coefficient · variable`, neither of the above.
    Affine(Affine),
    /// The integer that the operand at that position has as its value, known when the routine runs.
    Computed(usize),
}

impl AxisIndex {
    /// The simplest form of `index`.
    pub fn new(index: Affine) -> AxisIndex {
        match (index.as_constant(), index.as_var()) {
            (Some(i), _) => AxisIndex::Fixed(i),
            (None, Some(var)) => AxisIndex::Iterator(var),
            (None, None) => AxisIndex::Affine(index),
        }
    }

    /// The product iterator of axis `axis`, or 0 if that axis vanished.
    pub fn axis(axis: usize) -> AxisIndex {
        AxisIndex::Iterator(Var::Loop(axis_iterator(axis)))
    }

    /// The index as an affine form; 0 for a computed one, as the loop IR writes it.
    pub fn affine(&self) -> Affine {
        match self {
            AxisIndex::Fixed(i) => Affine::constant(*i),
            AxisIndex::Iterator(var) => Affine::var(*var),
            AxisIndex::Affine(affine) => affine.clone(),
            AxisIndex::Computed(_) => Affine::constant(0),
        }
    }

    /// The operand whose value the index is, if it is a computed one.
    pub fn computed(&self) -> Option<usize> {
        match self {
            AxisIndex::Computed(operand) => Some(*operand),
            AxisIndex::Fixed(_) | AxisIndex::Iterator(_) | AxisIndex::Affine(_) => None,
        }
    }

    /// The index with each index form replaced by `f` of it.
    pub fn map(&self, f: impl FnOnce(Affine) -> Affine) -> AxisIndex {
        match self {
            AxisIndex::Computed(operand) => AxisIndex::Computed(*operand),
            AxisIndex::Fixed(_) | AxisIndex::Iterator(_) | AxisIndex::Affine(_) => {
                AxisIndex::new(f(self.affine()))
            }
        }
    }

    /// The product iterators that occur, each with its coefficient.
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

/// The name that projections give to the iterator of a product axis.
pub fn axis_iterator(axis: usize) -> LoopId {
    LoopId(u32::try_from(axis).unwrap_or(u32::MAX))
}

/// An extent as the integer type of indices. Node sizes are checked against the address space, so nothing is
/// lost.
pub(crate) fn extent(dim: usize) -> i64 {
    i64::try_from(dim).unwrap_or(i64::MAX)
}

/// A product space and its projections to the arrays of one assignment.
///
/// Dimensions are those without padding; lowering adds the margins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projections {
    product_space: Dims,
    product_iterators: SmallVec<[LoopId; 4]>,
    lhs_dims: Dims,
    rhs_dims: Vec<Dims>,
    project_lhs: Projection,
    project_rhs: Vec<Projection>,
    debug_info: String,
}

/// An array's dimensions with the projection that reaches it.
pub type Indexed = (Dims, Projection);

/// Projections that do not fit together.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Another number of indices than dimensions.
    #[error("{place} has dimensions {dims:?}, found {found} indices")]
    Rank {
        /// Which array: the left-hand side or an operand.
        place: ArrayRole,
        /// Its dimensions.
        dims: Dims,
        /// The number of indices.
        found: usize,
    },
    /// A loop variable that is no product iterator.
    #[error("{place} is indexed by {iterator}, which is none of the {axes} product iterators")]
    UnknownIterator {
        /// Which array.
        place: ArrayRole,
        /// The variable.
        iterator: LoopId,
        /// The number of product axes.
        axes: usize,
    },
    /// A computed index by an operand that is not there, or that has an index computed by this one in turn.
    #[error("{place} has an index computed by operand {}, expected one of those after it, of {operands}", operand + 1)]
    NoOperand {
        /// Which array.
        place: ArrayRole,
        /// The operand's position.
        operand: usize,
        /// The number of operands.
        operands: usize,
    },
    /// More than one computed index.
    #[error("{place} has {found} computed indices, expected at most one")]
    SeveralComputed {
        /// Which array.
        place: ArrayRole,
        /// How many.
        found: usize,
    },
}

/// A place among the arrays of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayRole {
    /// The array written.
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

impl Projections {
    /// Projections over a product space with extents `axes`, outermost first; the iterator of axis `k` is
    /// [`axis_iterator`]`(k)`. `debug_info` says where they come from, for listings.
    ///
    /// Axes of extent 1 vanish: their iterators are replaced by 0. An index computed by an operand
    /// ([`AxisIndex::Computed`]) is the only one of its array, and the operand comes after the array, so that
    /// no index depends on itself.
    ///
    /// # Errors
    /// When a rank differs from the number of indices, an index has a variable that is no product iterator,
    /// or a computed index is not as said above.
    pub fn new(
        axes: &[usize],
        lhs: Indexed,
        rhs: Vec<Indexed>,
        debug_info: impl Into<String>,
    ) -> Result<Projections, IndexError> {
        check(axes.len(), ArrayRole::Lhs, &lhs)?;
        check_computed(rhs.len(), ArrayRole::Lhs, &lhs.1)?;
        for (at, operand) in rhs.iter().enumerate() {
            check(axes.len(), ArrayRole::Rhs(at), operand)?;
            check_computed(rhs.len(), ArrayRole::Rhs(at), &operand.1)?;
        }
        let iterating = || axes.iter().enumerate().filter(|(_, d)| **d != 1);
        let (rhs_dims, project_rhs) =
            rhs.into_iter().map(|(dims, p)| (dims, without_trivial(&p, axes))).unzip();
        Ok(Projections {
            product_space: iterating().map(|(_, &d)| d).collect(),
            product_iterators: iterating().map(|(axis, _)| axis_iterator(axis)).collect(),
            project_lhs: without_trivial(&lhs.1, axes),
            lhs_dims: lhs.0,
            rhs_dims,
            project_rhs,
            debug_info: debug_info.into(),
        })
    }

    /// The projections of a pointwise operation: every operand has the dimensions of the left-hand side.
    pub fn pointwise(dims: &[usize], operands: usize) -> Projections {
        let identity = identity_projections(dims);
        let indexed = |_| (Dims::from_slice(dims), identity.clone());
        let rhs = (0..operands).map(indexed).collect();
        Projections::new(dims, indexed(0), rhs, "pointwise")
            .expect("the identity has an iterator per axis and nothing else")
    }

    /// Extents of the product axes, outermost first; none is 1.
    pub fn product_space(&self) -> &[usize] {
        &self.product_space
    }

    /// The iterator of each product axis.
    pub fn product_iterators(&self) -> &[LoopId] {
        &self.product_iterators
    }

    /// Dimensions of the array written.
    pub fn lhs_dims(&self) -> &[usize] {
        &self.lhs_dims
    }

    /// Dimensions of each operand.
    pub fn rhs_dims(&self) -> &[Dims] {
        &self.rhs_dims
    }

    /// How the array written is indexed.
    pub fn project_lhs(&self) -> &[AxisIndex] {
        &self.project_lhs
    }

    /// How each operand is indexed.
    pub fn project_rhs(&self) -> &[Projection] {
        &self.project_rhs
    }

    /// Where the projections come from.
    pub fn debug_info(&self) -> &str {
        &self.debug_info
    }

    /// The extent of a product iterator; 1 for one that vanished.
    pub fn extent_of(&self, iterator: LoopId) -> usize {
        let at = self.product_iterators.iter().position(|&i| i == iterator);
        at.map_or(1, |at| self.product_space[at])
    }

    /// Rewrites every index, for instance to renumber symbols.
    pub fn map_indices(&mut self, mut f: impl FnMut(Affine) -> Affine) {
        let indices = self.project_lhs.iter_mut().chain(self.project_rhs.iter_mut().flatten());
        for index in indices {
            *index = index.map(&mut f);
        }
    }
}

fn check(axes: usize, place: ArrayRole, (dims, projection): &Indexed) -> Result<(), IndexError> {
    if dims.len() != projection.len() {
        return Err(IndexError::Rank { place, dims: dims.clone(), found: projection.len() });
    }
    let mut loops = projection.iter().flat_map(|index| index.loop_terms());
    match loops.find(|(id, _)| id.index() >= axes) {
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

/// `projection` with 0 for the iterators of axes of extent 1.
fn without_trivial(projection: &[AxisIndex], axes: &[usize]) -> Projection {
    let zero = Affine::constant(0);
    let fix = |index: &AxisIndex| {
        let trivial = |(id, _): &(LoopId, i64)| axes.get(id.index()) == Some(&1);
        index
            .loop_terms()
            .iter()
            .filter(|term| trivial(term))
            .fold(index.clone(), |index, &(id, _)| index.map(|affine| affine.substitute(id, &zero)))
    };
    projection.iter().map(fix).collect()
}

/// The projection that maps each product axis to the dimension at its place; dimensions of size 1 are fixed
/// at 0.
pub fn identity_projections(dims: &[usize]) -> Projection {
    let index =
        |(axis, &dim): (usize, &usize)| if dim == 1 { AxisIndex::Fixed(0) } else { AxisIndex::axis(axis) };
    dims.iter().enumerate().map(index).collect()
}

/// The row-major offset, in elements, of the element that `projection` reaches in an array of dimensions
/// `dims`.
pub fn reflect_projection(dims: &[usize], projection: &[AxisIndex]) -> Affine {
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
