//! Bytes of host arrays from and for file formats.

use std::borrow::Cow;
use std::io::{self, Read};

use aligned_vec::AVec;

use super::{HostArray, check_length, next_stride, offsets};
use crate::bytes::{ALIGN_BYTES, allocate};
use crate::dtype::DType;
use crate::error::Result;
use crate::padding::{Dims, checked_elems};

impl HostArray {
    /// The array whose little-endian bytes are a mapped part of a file, which it reads as they are if they
    /// are aligned to [`ALIGN_BYTES`](crate::ALIGN_BYTES), and copies otherwise. A private mapping
    /// (`map_copy`) keeps what is written into the array from the file.
    ///
    /// # Errors
    /// When the number of bytes does not match the element type and dimensions, or memory is short.
    pub fn from_mapping(
        dtype: DType,
        dims: impl IntoIterator<Item = usize>,
        mapping: memmap2::MmapMut,
    ) -> Result<HostArray> {
        let dims: Dims = dims.into_iter().collect();
        if !mapping.as_ptr().addr().is_multiple_of(ALIGN_BYTES) {
            return HostArray::from_bytes(dtype, dims, &mapping);
        }
        check_length(dtype, &dims, mapping.len())?;
        Ok(HostArray { dtype, dims, padding: None, bytes: mapping.into() })
    }

    /// An array of `len` bytes from a reader; memory grows only as they arrive.
    pub(crate) fn read_bytes(
        dtype: DType,
        dims: Dims,
        len: usize,
        mut reader: impl Read,
    ) -> Result<HostArray, io::Error> {
        let mut bytes = AVec::new(ALIGN_BYTES);
        let mut chunk = vec![0; len.min(1 << 16)];
        while bytes.len() < len {
            let part = chunk.len().min(len - bytes.len());
            reader.read_exact(&mut chunk[..part])?;
            bytes.try_reserve(part).map_err(|_| io::ErrorKind::OutOfMemory)?;
            bytes.extend_from_slice(&chunk[..part]);
        }
        Ok(HostArray { dtype, dims, padding: None, bytes: bytes.into() })
    }

    /// The array whose elements lie in `bytes` at multiples of `strides`, which were checked.
    ///
    /// # Errors
    /// When memory is short.
    pub(crate) fn from_strided(
        dtype: DType,
        dims: Dims,
        strides: &[usize],
        bytes: &[u8],
    ) -> Result<HostArray> {
        let size = dtype.size_bytes();
        let mut elements = allocate(checked_elems(&dims)? * size)?;
        for from in offsets(&dims, strides, 0) {
            elements.extend_from_slice(&bytes[from * size..][..size]);
        }
        Ok(HostArray { dtype, dims, padding: None, bytes: elements.into() })
    }

    /// The bytes of the values without margins, row-major.
    pub(crate) fn value_bytes(&self) -> Cow<'_, [u8]> {
        if self.padding.is_none() {
            return Cow::Borrowed(self.bytes());
        }
        let size = self.dtype.size_bytes();
        Cow::Owned(
            self.value_offsets().flat_map(|offset| &self.bytes[offset * size..][..size]).copied().collect(),
        )
    }

    /// Rearranges an array whose elements are in column-major order into row-major order.
    ///
    /// # Errors
    /// When memory is short.
    pub(crate) fn into_rows_first(self) -> Result<HostArray> {
        let strides = column_major_strides(&self.dims);
        HostArray::from_strided(self.dtype, self.dims.clone(), &strides, &self.bytes)
    }

    /// Replaces every non-zero `bool` by 1, the only valid byte for true.
    pub(crate) fn normalize_bools(&mut self) {
        if self.dtype == DType::Bool {
            self.bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }
}

/// Elements between neighbors along each axis, where the first axis is contiguous.
fn column_major_strides(dims: &[usize]) -> Dims {
    dims.iter().scan(1, next_stride).collect()
}
