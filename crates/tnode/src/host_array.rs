//! Arrays in host memory.
//!
//! A [`HostArray`] is a byte array with an element type, dimensions and margins. The bytes are aligned to 64,
//! so that vector code and devices can use them in place. Access by index skips the margins; the byte and
//! slice views include them.

#[cfg(feature = "files")]
mod files;
#[cfg(feature = "ndarray")]
mod ndarray;
mod parts;
mod resized;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::bytes::{self, Bytes, allocate};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Result, TensorNodeError};
use crate::node::TensorNode;
use crate::padding::{Dims, Padding, checked_elems};
use crate::scalar::Scalar;

/// A dense row-major array in host memory.
///
/// ```
/// # use tnode::HostArray;
/// let a = HostArray::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(a.value(&[1, 0])?, 3.0);
/// # Ok::<(), tnode::TensorNodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostArray {
    dtype: DType,
    dims: Dims,
    padding: Option<Padding>,
    bytes: Bytes,
}

/// A copy, or an error if memory is short.
impl TryFrom<&HostArray> for Arc<HostArray> {
    type Error = TensorNodeError;

    fn try_from(array: &HostArray) -> Result<Arc<HostArray>> {
        array.try_clone().map(Arc::new)
    }
}

/// Making arrays.
impl HostArray {
    /// An array of zeros.
    ///
    /// # Errors
    /// When it would be too large to address, or memory is short.
    pub fn zeros(dtype: DType, dims: impl IntoIterator<Item = usize>) -> Result<HostArray> {
        let dims: Dims = dims.into_iter().collect();
        let len = checked_elems(&dims)? * dtype.size_bytes();
        Ok(HostArray { dtype, dims, padding: None, bytes: bytes::zeros(len)? })
    }

    /// An array of zeros with margins, which hold the neutral value (zero if there is none); `dims` are
    /// without margins.
    ///
    /// # Errors
    /// When the padding has another number of axes, or the array would be too large to address.
    pub fn zeros_padded(
        dtype: DType,
        dims: impl IntoIterator<Item = usize>,
        padding: Padding,
    ) -> Result<HostArray> {
        let dims: Dims = dims.into_iter().collect();
        let mut array = HostArray::zeros(dtype, padding.padded(&dims)?)?;
        if let Some(neutral) = padding.neutral {
            array.fill_bytes(Scalar::from_f64(dtype, neutral));
        }
        array.padding = Some(padding);
        array.fill(Scalar::zero(dtype));
        Ok(array)
    }

    /// A copy of `values`, row-major.
    ///
    /// # Errors
    /// When their number is not the product of `dims`, or memory is short.
    pub fn from_slice<T: Element>(values: &[T], dims: impl IntoIterator<Item = usize>) -> Result<HostArray> {
        HostArray::from_bytes(T::DTYPE, dims, bytemuck::cast_slice(values))
    }

    /// A copy of the little-endian bytes of row-major elements.
    ///
    /// # Errors
    /// When their number does not match the element type and dimensions, or memory is short.
    pub fn from_bytes(
        dtype: DType,
        dims: impl IntoIterator<Item = usize>,
        bytes: &[u8],
    ) -> Result<HostArray> {
        let dims: Dims = dims.into_iter().collect();
        check_length(dtype, &dims, bytes.len())?;
        if bytes.len() >= bytes::PAGED {
            let mut array = HostArray::zeros(dtype, dims)?;
            array.bytes.copy_from_slice(bytes);
            return Ok(array);
        }
        let mut copy = allocate(bytes.len())?;
        copy.extend_from_slice(bytes);
        Ok(HostArray { dtype, dims, padding: None, bytes: copy.into() })
    }

    /// An array with the same bytes, in which the elements at the edges are the margins that `padding`
    /// describes.
    ///
    /// # Errors
    /// When the margins have another number of axes or exceed the dimensions.
    pub fn from_padded(array: HostArray, padding: Padding) -> Result<HostArray> {
        padding.unpadded(&array.dims)?;
        Ok(HostArray { padding: Some(padding), ..array })
    }

    /// A copy, or an error if memory is short. `clone` aborts the process in that case.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_clone(&self) -> Result<HostArray> {
        let mut bytes = allocate(self.bytes.len())?;
        bytes.extend_from_slice(&self.bytes);
        let (dims, padding) = (self.dims.clone(), self.padding.clone());
        Ok(HostArray { dtype: self.dtype, dims, padding, bytes: bytes.into() })
    }

    /// The same values with new dimensions (without margins), copied into new margins if there are any.
    ///
    /// # Errors
    /// When the number of values differs, or the padding does not fit.
    pub fn with_reshape(
        &self,
        dims: impl IntoIterator<Item = usize>,
        padding: Option<Padding>,
    ) -> Result<HostArray> {
        let dims: Dims = dims.into_iter().collect();
        let (expected, found) = (checked_elems(&dims)?, self.num_values());
        if expected != found {
            return Err(TensorNodeError::ElementCount { dims, expected, found });
        }
        let mut target = match padding {
            Some(padding) => HostArray::zeros_padded(self.dtype, dims, padding)?,
            None => HostArray::zeros(self.dtype, dims)?,
        };
        for (to, from) in target.value_offsets().zip(self.value_offsets()) {
            let size = self.dtype.size_bytes();
            target.bytes[to * size..][..size].copy_from_slice(&self.bytes[from * size..][..size]);
        }
        Ok(target)
    }
}

/// Arrays for nodes.
impl HostArray {
    /// A copy of the values with the margins of a node around them: the array that a transfer to the node
    /// needs. The margins hold the neutral value of the node's padding, or 0 if it declares none; margins of
    /// `self` are left out.
    ///
    /// ```
    /// # use tnode::{HostArray, Padding, TensorNode};
    /// let x = TensorNode::builder("x").dims([2]).padding(Padding::new([(1, 2)], Some(9.0))).build()?;
    /// let padded = HostArray::from_slice(&[1f32, 2.0], [2])?.with_margins_of(&x)?;
    /// assert_eq!(padded.as_slice::<f32>()?, [9.0, 1.0, 2.0, 9.0, 9.0]);
    /// assert_eq!(padded.values(), [1.0, 2.0]);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// When the dimensions (without margins) or the element type differ from the node's, the node's
    /// dimensions are not settled, or memory is short.
    pub fn with_margins_of(&self, node: &TensorNode) -> Result<HostArray> {
        let (dims, found) = (node.dims_without_padding()?, self.dims_without_padding());
        if dims != found {
            return Err(TensorNodeError::ArrayDims {
                node: node.name(),
                expected: dims,
                found: found.to_vec(),
            });
        }
        if node.dtype() != self.dtype {
            return Err(TensorNodeError::ElementType { expected: node.dtype(), found: self.dtype });
        }
        self.with_reshape(dims, node.padding().cloned())
    }
}

/// Whether an array has so many bytes.
fn check_length(dtype: DType, dims: &Dims, bytes: usize) -> Result<()> {
    let expected = checked_elems(dims)?;
    if bytes == expected * dtype.size_bytes() {
        return Ok(());
    }
    let (dims, found) = (dims.clone(), bytes / dtype.size_bytes());
    Err(TensorNodeError::ElementCount { dims, expected, found })
}

/// Element type, dimensions and raw views.
impl HostArray {
    /// The array of other dimensions that has the elements of this one at the same indices, and zeros at
    /// indices that this one lacks. Elements at indices that the new one lacks are left out.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let array = HostArray::from_slice(&[1i32, 2, 3, 4], [2, 2])?;
    /// assert_eq!(array.resized([1, 3])?.values(), [1., 2., 0.]);
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of dimensions, or no memory. Margins count as elements, and the new array has none.
    pub fn resized(&self, dims: impl IntoIterator<Item = usize>) -> Result<HostArray> {
        resized::resized(self, &dims.into_iter().collect::<Dims>())
    }

    /// The element type of the values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions of the whole array, with margins.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// The dimensions of the values, without margins.
    pub fn dims_without_padding(&self) -> Dims {
        let Some(padding) = &self.padding else { return self.dims.clone() };
        padding.axes.iter().zip(&self.dims).map(|(p, d)| d - p.left - p.right).collect()
    }

    /// The margins, if there are any.
    pub fn padding(&self) -> Option<&Padding> {
        self.padding.as_ref()
    }

    /// The number of values, without margins.
    pub fn num_values(&self) -> usize {
        self.dims_without_padding().iter().product()
    }

    /// The total number of bytes of all live host arrays in the process.
    pub fn live_bytes() -> usize {
        bytes::live()
    }

    /// Length of [`bytes`](HostArray::bytes).
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All elements, margins included, as little-endian bytes aligned to [`ALIGN_BYTES`](crate::ALIGN_BYTES).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All elements, margins included, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// All elements, margins included, without a copy.
    ///
    /// # Errors
    /// When the elements are of another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check_type::<T>()?;
        Ok(bytemuck::cast_slice(&self.bytes))
    }

    /// All elements, margins included, for writing, without a copy.
    ///
    /// # Errors
    /// When the elements are of another type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check_type::<T>()?;
        Ok(bytemuck::cast_slice_mut(&mut self.bytes))
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        if self.dtype == T::DTYPE {
            return Ok(());
        }
        Err(TensorNodeError::ElementType { expected: T::DTYPE, found: self.dtype })
    }
}

/// Values by index; margins are skipped, and an array without axes has its value at `[]` and `[0]`.
impl HostArray {
    /// The value at `index`.
    ///
    /// # Errors
    /// When the index is outside.
    pub fn get(&self, index: &[usize]) -> Result<Scalar> {
        Ok(self.element(self.offset(index)?))
    }

    /// Replaces the value at `index`, converted to the array's type.
    ///
    /// # Errors
    /// When the index is outside.
    pub fn set(&mut self, index: &[usize], value: Scalar) -> Result<()> {
        let offset = self.offset(index)?;
        self.set_element(offset, value.convert(self.dtype));
        Ok(())
    }

    /// The value at `index` as `f64`.
    ///
    /// # Errors
    /// When the index is outside.
    pub fn value(&self, index: &[usize]) -> Result<f64> {
        Ok(self.get(index)?.as_f64())
    }

    /// The value of an array of one element, of any number of axes, as `f64`.
    ///
    /// ```
    /// # use tnode::HostArray;
    /// let loss = HostArray::from_slice(&[0.5f32], [])?;
    /// assert_eq!(loss.item()?, 0.5);
    /// assert!(HostArray::from_slice(&[1f32, 2.0], [2])?.item().is_err());
    /// # Ok::<(), tnode::TensorNodeError>(())
    /// ```
    ///
    /// # Errors
    /// When there is not one element.
    pub fn item(&self) -> Result<f64> {
        match (self.num_values(), self.value_offsets().next()) {
            (1, Some(offset)) => Ok(self.element(offset).as_f64()),
            (found, _) => Err(TensorNodeError::NotOneElement { dims: self.dims_without_padding(), found }),
        }
    }

    /// All values as `f64`, row-major.
    pub fn values(&self) -> Vec<f64> {
        self.value_offsets().map(|offset| self.element(offset).as_f64()).collect()
    }

    /// Replaces all values, row-major, rounded to the array's type; margins stay.
    ///
    /// # Errors
    /// When the number of values differs.
    pub fn set_values(&mut self, values: &[f64]) -> Result<()> {
        let (expected, found) = (self.num_values(), values.len());
        if expected != found {
            return Err(TensorNodeError::ElementCount { dims: self.dims_without_padding(), expected, found });
        }
        for (offset, &x) in self.value_offsets().zip(values) {
            self.set_element(offset, Scalar::from_f64(self.dtype, x));
        }
        Ok(())
    }

    /// Replaces all values by one, converted to the array's type; margins stay.
    pub fn fill(&mut self, value: Scalar) {
        let value = value.convert(self.dtype);
        for offset in self.value_offsets() {
            self.set_element(offset, value);
        }
    }

    fn fill_bytes(&mut self, value: Scalar) {
        for offset in 0..self.bytes.len() / self.dtype.size_bytes() {
            self.set_element(offset, value);
        }
    }

    fn offset(&self, index: &[usize]) -> Result<usize> {
        let dims = self.dims_without_padding();
        let index = if dims.is_empty() && index == [0] { &[] } else { index };
        let inside = index.len() == dims.len() && index.iter().zip(&dims).all(|(i, d)| i < d);
        if !inside {
            return Err(TensorNodeError::OutOfBounds { index: index.to_vec(), dims });
        }
        let padded = (0..index.len()).map(|axis| index[axis] + self.left_margin(axis));
        Ok(padded.zip(&self.dims).fold(0, |offset, (i, d)| offset * d + i))
    }

    fn left_margin(&self, axis: usize) -> usize {
        self.padding.as_ref().map_or(0, |padding| padding.axes[axis].left)
    }

    /// Offsets of all values in elements, row-major.
    fn value_offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let strides = row_major_strides(&self.dims);
        let first = strides.iter().enumerate().map(|(axis, stride)| self.left_margin(axis) * stride).sum();
        offsets(&self.dims_without_padding(), &strides, first)
    }

    /// The element at an offset inside the array.
    fn element(&self, offset: usize) -> Scalar {
        let size = self.dtype.size_bytes();
        Scalar::read(self.dtype, &self.bytes[offset * size..])
            .expect("offsets are checked against the dimensions")
    }

    fn set_element(&mut self, offset: usize, value: Scalar) {
        let size = self.dtype.size_bytes();
        value.write(&mut self.bytes[offset * size..]).expect("offsets are checked against the dimensions");
    }
}

/// Elements between neighbors along each axis, where the last axis is contiguous.
fn row_major_strides(dims: &[usize]) -> Dims {
    let mut strides: Dims = dims.iter().rev().scan(1, next_stride).collect();
    strides.reverse();
    strides
}

/// The stride of an axis, computed from the next inner one. Extents of 0 count as 1, so that products of the
/// other extents are checked for overflow too.
fn next_stride(next: &mut usize, size: &usize) -> Option<usize> {
    Some(std::mem::replace(next, *next * (*size).max(1)))
}

/// Offsets of all elements of a box with dimensions `dims`, row-major, starting at `first`. Costs one
/// addition for each element and for each axis that wraps around.
fn offsets(dims: &[usize], strides: &[usize], first: usize) -> impl Iterator<Item = usize> + use<> {
    let axes: SmallVec<[(usize, usize); 4]> = dims.iter().copied().zip(strides.iter().copied()).collect();
    let mut index = Dims::from_elem(0, dims.len());
    let mut offset = first;
    (0..dims.iter().product()).map(move |_| {
        let here = offset;
        for (at, (size, stride)) in index.iter_mut().zip(&axes).rev() {
            *at += 1;
            offset += stride;
            if *at < *size {
                break;
            }
            offset -= *at * stride;
            *at = 0;
        }
        here
    })
}

/// Equal element types, dimensions, margins and bits of all elements.
impl PartialEq for HostArray {
    fn eq(&self, other: &HostArray) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && self.padding == other.padding
            && self.bytes() == other.bytes()
    }
}
