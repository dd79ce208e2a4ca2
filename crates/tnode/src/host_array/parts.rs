//! Arrays from parts of others: slices, concatenation, other element types.

use std::borrow::Cow;
use std::ops::Range;

use super::HostArray;
use crate::bytes::allocate;
use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::padding::{Dims, checked_elems};

/// Parts of arrays, and arrays that are joined. Margins are left out: the results have none.
impl HostArray {
    /// A copy of the elements whose coordinate along an axis is in a range.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let array = HostArray::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// let columns = array.slice(1, 1..3)?;
    /// assert_eq!((columns.dims().as_slice(), columns.values()), (&[2, 2][..], vec![2., 3., 5., 6.]));
    /// assert_eq!(
    ///     array.slice(0, 1..3).unwrap_err().to_string(),
    ///     "coordinates 1..3 along axis 0 are not within the dimensions [2, 3]"
    /// );
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// An axis that the array lacks, a range that is not within it, or no memory.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<HostArray> {
        let mut dims = self.dims_without_padding();
        let Some(&size) = dims.get(axis) else { return Err(TensorNodeError::NoSuchAxis { axis, dims }) };
        let Range { start, end } = range;
        if start > end || end > size {
            return Err(TensorNodeError::NoSuchRange { start, end, axis, dims });
        }
        dims[axis] = end - start;
        joined(self.dtype, dims, axis, &[(&*self.without_margins()?, start..end)])
    }

    /// A copy of the elements at an index of the first axis, without this axis.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let array = HostArray::from_slice(&[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// let row = array.row(1)?;
    /// assert_eq!((row.dims().as_slice(), row.values()), (&[3][..], vec![4., 5., 6.]));
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// An array without axes, an index that is outside, or no memory.
    pub fn row(&self, index: usize) -> Result<HostArray> {
        let dims = self.dims_without_padding();
        if dims.first().is_some_and(|&rows| index >= rows) {
            return Err(TensorNodeError::NoSuchCoordinate { coordinate: index, axis: 0, dims });
        }
        let mut row = self.slice(0, index..index.saturating_add(1))?;
        row.dims.remove(0);
        Ok(row)
    }

    /// Arrays of one type one after the other along an axis that they have.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let a = HostArray::from_slice(&[1u8, 2], [2, 1])?;
    /// let b = HostArray::from_slice(&[3u8, 4, 5, 6], [2, 2])?;
    /// let all = HostArray::concat(&[&a, &b], 1)?;
    /// assert_eq!((all.dims().as_slice(), all.values()), (&[2, 3][..], vec![1., 3., 4., 2., 5., 6.]));
    /// assert!(HostArray::concat(&[&a, &b], 0).is_err());
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// No arrays; arrays of several types, or whose dimensions differ on another axis; an axis that they
    /// lack; no memory, or a result that is too large to address.
    pub fn concat(arrays: &[&HostArray], axis: usize) -> Result<HostArray> {
        let Some(&first) = arrays.first() else { return Err(TensorNodeError::NoArrays) };
        let mut dims = first.dims_without_padding();
        if axis >= dims.len() {
            return Err(TensorNodeError::NoSuchAxis { axis, dims });
        }
        let mut parts = Vec::with_capacity(arrays.len());
        let mut size = 0usize;
        for (position, array) in arrays.iter().enumerate() {
            if array.dtype != first.dtype {
                return Err(TensorNodeError::ElementType { expected: first.dtype, found: array.dtype });
            }
            let found = array.dims_without_padding();
            let own = found.get(axis).copied().unwrap_or_default();
            let mut expected = dims.clone();
            expected[axis] = own;
            if found != expected {
                return Err(TensorNodeError::PartDims { position, expected: dims, found });
            }
            size = size.saturating_add(own); // if it overflows, a size that no array has
            parts.push((array.without_margins()?, 0..own));
        }
        dims[axis] = size;
        let parts: Vec<_> = parts.iter().map(|(array, range)| (&**array, range.clone())).collect();
        joined(first.dtype, dims, axis, &parts)
    }

    /// Arrays of one type and of equal dimensions along a new axis.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let (a, b) = (HostArray::from_slice(&[1f32, 2.0], [2])?, HostArray::from_slice(&[3f32, 4.0], [2])?);
    /// assert_eq!(HostArray::stack(&[&a, &b], 0)?.values(), [1., 2., 3., 4.]);
    /// assert_eq!(HostArray::stack(&[&a, &b], 1)?.values(), [1., 3., 2., 4.]);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`concat`](HostArray::concat); the new axis is at most the number of axes.
    pub fn stack(arrays: &[&HostArray], axis: usize) -> Result<HostArray> {
        let Some(&first) = arrays.first() else { return Err(TensorNodeError::NoArrays) };
        let dims = first.dims_without_padding();
        if axis > dims.len() {
            return Err(TensorNodeError::NoSuchAxis { axis, dims });
        }
        let mut layers = Vec::with_capacity(arrays.len());
        for (position, array) in arrays.iter().enumerate() {
            let found = array.dims_without_padding();
            if found != dims {
                return Err(TensorNodeError::PartDims { position, expected: dims, found });
            }
            let mut layer = dims.clone();
            layer.insert(axis, 1);
            layers.push(array.with_reshape(layer, None)?);
        }
        HostArray::concat(&layers.iter().collect::<Vec<_>>(), axis)
    }

    /// A copy with elements of another type: a float is rounded to the nearest value of a float type, and
    /// towards zero and into the range of an integer type; an integer is reduced to the bits of an integer
    /// type. See [`Scalar::convert`](crate::Scalar::convert).
    ///
    /// ```
    /// # use tnode::{DType, HostArray};
    /// let array = HostArray::from_slice(&[0.1f32, -2.5, 300.0], [3])?;
    /// assert_eq!(array.to_dtype(DType::I32)?.values(), [0., -2., 300.]);
    /// assert_eq!(array.to_dtype(DType::F16)?.values(), [0.0999755859375, -2.5, 300.]);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// No memory, or an array that is too large to address.
    pub fn to_dtype(&self, dtype: DType) -> Result<HostArray> {
        let mut converted = HostArray::zeros(dtype, self.dims_without_padding())?;
        for (at, offset) in self.value_offsets().enumerate() {
            converted.set_element(at, self.element(offset).convert(dtype));
        }
        Ok(converted)
    }

    fn without_margins(&self) -> Result<Cow<'_, HostArray>> {
        match &self.padding {
            None => Ok(Cow::Borrowed(self)),
            Some(_) => Ok(Cow::Owned(self.with_reshape(self.dims_without_padding(), None)?)),
        }
    }
}

/// Joins ranges of arrays without margins along an axis; `dims` are the dimensions of the result.
fn joined(dtype: DType, dims: Dims, axis: usize, parts: &[(&HostArray, Range<usize>)]) -> Result<HostArray> {
    let mut bytes = allocate(checked_elems(&dims)? * dtype.size_bytes())?;
    let outer: usize = dims[..axis].iter().product();
    let inner = dims[axis + 1..].iter().product::<usize>() * dtype.size_bytes();
    for row in 0..outer {
        for (array, range) in parts {
            let start = row * array.dims[axis];
            bytes.extend_from_slice(&array.bytes[(start + range.start) * inner..(start + range.end) * inner]);
        }
    }
    Ok(HostArray { dtype, dims, padding: None, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::padding::Padding;

    #[test]
    fn parts_join_to_the_whole() -> Result<()> {
        let values: Vec<i32> = (0..24).collect();
        let array = HostArray::from_slice(&values, [2, 3, 4])?;
        for axis in 0..3 {
            let size = array.dims()[axis];
            for at in 0..=size {
                let parts = [array.slice(axis, 0..at)?, array.slice(axis, at..size)?];
                assert_eq!(HostArray::concat(&parts.iter().collect::<Vec<_>>(), axis)?, array);
            }
        }
        let rows = [array.row(0)?, array.row(1)?];
        assert_eq!(HostArray::stack(&[&rows[0], &rows[1]], 0)?, array);
        let last = HostArray::stack(&[&rows[0], &rows[1]], 2)?;
        assert_eq!(last.dims().as_slice(), [3, 4, 2]);
        assert_eq!(last.values()[..4], [0., 12., 1., 13.]);
        Ok(())
    }

    #[test]
    fn margins_are_left_out() -> Result<()> {
        let mut array =
            HostArray::zeros_padded(DType::F32, [2, 2], Padding::new([(1, 0), (0, 2)], Some(9.0)))?;
        array.set_values(&[1., 2., 3., 4.])?;
        assert_eq!(array.row(1)?, HostArray::from_slice(&[3f32, 4.0], [2])?);
        assert_eq!(array.slice(1, 1..2)?, HostArray::from_slice(&[2f32, 4.0], [2, 1])?);
        assert_eq!(array.to_dtype(DType::I32)?, HostArray::from_slice(&[1i32, 2, 3, 4], [2, 2])?);
        assert_eq!(HostArray::stack(&[&array, &array], 0)?.num_values(), 8);
        Ok(())
    }

    #[test]
    fn bad_arguments_are_named() -> Result<()> {
        let (array, scalar) = (HostArray::zeros(DType::F32, [2, 3])?, HostArray::zeros(DType::F32, [])?);
        let message = |result: Result<HostArray>| result.unwrap_err().to_string();
        assert_eq!(message(array.slice(2, 0..1)), "no axis 2 in the dimensions [2, 3]");
        let (start, end) = (2, 1);
        assert!(message(array.slice(1, start..end)).starts_with("coordinates 2..1 along axis 1"));
        assert_eq!(message(array.row(2)), "no coordinate 2 along axis 0 of the dimensions [2, 3]");
        assert_eq!(message(scalar.row(0)), "no axis 0 in the dimensions []");
        assert_eq!(message(HostArray::concat(&[], 0)), "no arrays, expected at least one");
        assert_eq!(message(HostArray::stack(&[], 0)), "no arrays, expected at least one");
        assert_eq!(message(HostArray::stack(&[&scalar], 1)), "no axis 1 in the dimensions []");
        let other = HostArray::zeros(DType::F32, [3, 3])?;
        assert_eq!(
            message(HostArray::concat(&[&array, &other], 1)),
            "array 1 has dimensions [3, 3], which do not fit [2, 3] of array 0"
        );
        let integers = array.to_dtype(DType::I32)?;
        assert_eq!(message(HostArray::concat(&[&array, &integers], 0)), "elements are i32, expected f32");
        assert_eq!(HostArray::stack(&[&scalar, &scalar], 0)?.dims().as_slice(), [2]);
        Ok(())
    }
}
