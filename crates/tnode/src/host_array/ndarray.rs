//! Conversions from and to arrays of the crate `ndarray`. `bool` and the 8-bit floats have no [`Element`] and
//! are not converted.

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Data, Dimension, IxDyn};

use super::HostArray;
use crate::element::Element;
use crate::error::{Result, TensorNodeError};

/// A copy of the elements, row-major.
///
/// ```
/// use ndarray::{ArrayD, ArrayViewD, array};
/// use tnode::HostArray;
///
/// let table = array![[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let host = HostArray::try_from(&table.t())?; // any strides and any number of axes
/// assert_eq!(host.dims().as_slice(), [3, 2]);
/// let view = ArrayViewD::<f32>::try_from(&host)?; // without a copy
/// assert_eq!(view[[2, 1]], 6.0);
/// let copy = ArrayD::<f32>::try_from(&host)?;
/// assert_eq!(copy.t(), table.into_dyn());
/// # Ok::<(), tnode::TensorNodeError>(())
/// ```
impl<T: Element, S: Data<Elem = T>, D: Dimension> TryFrom<&ArrayBase<S, D>> for HostArray {
    type Error = TensorNodeError;

    /// # Errors
    /// More than [`MAX_RANK`](crate::MAX_RANK) axes, or no memory.
    fn try_from(array: &ArrayBase<S, D>) -> Result<HostArray> {
        let dims = array.shape().iter().copied();
        if let Some(elements) = array.as_slice() {
            return HostArray::from_slice(elements, dims);
        }
        let mut host = HostArray::zeros(T::DTYPE, dims)?;
        host.as_mut_slice::<T>()?.iter_mut().zip(array).for_each(|(to, from)| *to = *from);
        Ok(host)
    }
}

/// The elements in place.
impl<'a, T: Element> TryFrom<&'a HostArray> for ArrayViewD<'a, T> {
    type Error = TensorNodeError;

    /// # Errors
    /// Elements of another type, or an array with margins, which [`HostArray::slice`] leaves out.
    fn try_from(array: &'a HostArray) -> Result<ArrayViewD<'a, T>> {
        let dims = array.dims_without_padding();
        let elements = array.as_slice::<T>()?;
        let found = elements.len();
        ArrayViewD::from_shape(IxDyn(&dims), elements).ok().filter(|_| array.padding().is_none()).ok_or_else(
            || TensorNodeError::ElementCount { expected: dims.iter().product(), dims: dims.clone(), found },
        )
    }
}

/// A copy of the elements, without margins.
impl<T: Element> TryFrom<&HostArray> for ArrayD<T> {
    type Error = TensorNodeError;

    /// # Errors
    /// Elements of another type, or no memory.
    fn try_from(array: &HostArray) -> Result<ArrayD<T>> {
        if let (Some(_), Some(&rows)) = (array.padding(), array.dims_without_padding().first()) {
            return ArrayD::try_from(&array.slice(0, 0..rows)?);
        }
        Ok(ArrayViewD::try_from(array)?.to_owned())
    }
}
