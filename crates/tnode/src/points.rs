//! Point clouds from host arrays, for plots.

use crate::error::{Result, TensorNodeError};
use crate::host_array::HostArray;

impl HostArray {
    /// Coordinate `xdim` along `from_axis` (the last axis if `None`) for every index of the other axes,
    /// row-major.
    ///
    /// **Shapes**: from `[a, b, c]` along axis 1, `a * c` points.
    ///
    /// # Errors
    /// When there is no such axis or coordinate.
    pub fn points_1d(&self, from_axis: Option<usize>, xdim: usize) -> Result<Vec<f64>> {
        let axis = self.checked_axis(from_axis, &[xdim])?;
        self.indices_along(axis).map(|index| self.value(&with(index, axis, xdim))).collect()
    }

    /// Coordinates `xdim` and `ydim` along `from_axis` (the last axis if `None`) for every index of the other
    /// axes, row-major.
    ///
    /// # Errors
    /// When there is no such axis or coordinate.
    pub fn points_2d(&self, from_axis: Option<usize>, xdim: usize, ydim: usize) -> Result<Vec<(f64, f64)>> {
        let axis = self.checked_axis(from_axis, &[xdim, ydim])?;
        let point = |index: Vec<usize>| {
            let x = self.value(&with(index.clone(), axis, xdim))?;
            Ok((x, self.value(&with(index, axis, ydim))?))
        };
        self.indices_along(axis).map(point).collect()
    }

    /// The requested axis, if it has all the coordinates.
    fn checked_axis(&self, from_axis: Option<usize>, coordinates: &[usize]) -> Result<usize> {
        let dims = self.dims_without_padding();
        let axis = from_axis.unwrap_or(dims.len().saturating_sub(1));
        let Some(&size) = dims.get(axis) else { return Err(TensorNodeError::NoSuchAxis { axis, dims }) };
        match coordinates.iter().find(|&&coordinate| coordinate >= size) {
            Some(&coordinate) => Err(TensorNodeError::NoSuchCoordinate { coordinate, axis, dims }),
            None => Ok(axis),
        }
    }

    /// Every index whose component along `axis` is 0, row-major.
    fn indices_along(&self, axis: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
        let mut dims = self.dims_without_padding();
        dims[axis] = 1;
        (0..dims.iter().product()).map(move |n| unravel(n, &dims))
    }
}

fn with(mut index: Vec<usize>, axis: usize, coordinate: usize) -> Vec<usize> {
    index[axis] = coordinate;
    index
}

/// The `n`-th index of an array with dimensions `dims`, row-major.
fn unravel(mut n: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        index[axis] = n % dims[axis];
        n /= dims[axis];
    }
    index
}
