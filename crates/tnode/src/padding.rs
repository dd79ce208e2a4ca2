//! Margins around the values of a node, so that windows may extend beyond the edges of the array.

use std::fmt;

use smallvec::SmallVec;

use crate::error::{Result, TensorNodeError};
use crate::run_size::RunSize;

/// The extents of the axes, outermost first; arrays are row-major.
pub type Dims = SmallVec<[usize; 4]>;

/// The sizes that a run gives to the axes of a node: one entry per axis, `None` for a constant
/// dimension; empty if all are constant.
///
/// The dimension of an axis with such a size is its bound. Memory and strides are those of the bounds; in a
/// run where the size is `n`, the first `n` positions of the axis have values, and those of the others are
/// not specified.
pub type RunSizes = SmallVec<[Option<RunSize>; 1]>;

/// The largest number of axes of a node or a host array. The verifier of the loop IR has the same limit.
pub const MAX_RANK: usize = 32;

/// The margins of one axis, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AxisPadding {
    /// Elements before the first value.
    pub left: usize,
    /// Elements after the last value.
    pub right: usize,
}

/// The margins of every axis, and the value in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Padding {
    /// One entry per axis.
    pub axes: SmallVec<[AxisPadding; 4]>,
    /// The value in the margins; `None` if consumers with different neutral elements reset the margins before
    /// each use.
    pub neutral: Option<f64>,
}

/// The margins as `(left, right)` per axis, and the value in them, as in `[(1, 1), (0, 0)] of 0`.
impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.axes.iter().map(|axis| (axis.left, axis.right))).finish()?;
        self.neutral.map_or(Ok(()), |neutral| write!(f, " of {neutral}"))
    }
}

impl Padding {
    /// Margins given as `(left, right)` per axis.
    pub fn new(axes: impl IntoIterator<Item = (usize, usize)>, neutral: Option<f64>) -> Padding {
        let axes = axes.into_iter().map(|(left, right)| AxisPadding { left, right }).collect();
        Padding { axes, neutral }
    }

    /// The extents of left margin, values and right margin together.
    ///
    /// # Errors
    /// When the number of axes differs, or a size overflows.
    pub fn padded(&self, dims: &[usize]) -> Result<Dims> {
        self.check_rank(dims)?;
        let grown = dims.iter().zip(&self.axes).map(|(&d, p)| d.checked_add(p.left)?.checked_add(p.right));
        grown
            .collect::<Option<Dims>>()
            .ok_or_else(|| TensorNodeError::TooLarge { dims: Dims::from_slice(dims) })
    }

    /// The dimensions without margins, given the dimensions with margins.
    ///
    /// # Errors
    /// When the number of axes differs, or a margin exceeds its axis.
    pub fn unpadded(&self, dims: &[usize]) -> Result<Dims> {
        self.check_rank(dims)?;
        let shrunk = dims.iter().zip(&self.axes).map(|(&d, p)| d.checked_sub(p.left)?.checked_sub(p.right));
        shrunk.collect::<Option<Dims>>().ok_or_else(|| TensorNodeError::PaddingExceeds {
            dims: Dims::from_slice(dims),
            padding: self.axes.iter().map(|p| (p.left, p.right)).collect(),
        })
    }

    fn check_rank(&self, dims: &[usize]) -> Result<()> {
        if self.axes.len() == dims.len() {
            return Ok(());
        }
        Err(TensorNodeError::PaddingRank { dims: Dims::from_slice(dims), axes: self.axes.len() })
    }
}

/// The product of `dims`.
///
/// # Errors
/// When there are more than [`MAX_RANK`] axes, or an array with this number of elements of 16 bytes would not
/// fit the address space.
pub(crate) fn checked_elems(dims: &[usize]) -> Result<usize> {
    if dims.len() > MAX_RANK {
        return Err(TensorNodeError::TooManyAxes { found: dims.len(), limit: MAX_RANK });
    }
    let too_large = || TensorNodeError::TooLarge { dims: Dims::from_slice(dims) };
    // An axis of extent 0 empties the array, but index arithmetic still computes products of the other
    // extents.
    let extent = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1))).ok_or_else(too_large)?;
    extent.checked_mul(16).filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(too_large)?;
    Ok(dims.iter().product())
}
