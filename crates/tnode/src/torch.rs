//! Files of `torch.save`, such as `model.pt` and `pytorch_model.bin`, read without executing their pickles.
//!
//! Such a file is a zip archive with the pickle `data.pkl`, which describes tensors, and the bytes of their
//! storages. A pickle is a program. This reader runs the opcodes that make values, and knows the globals that
//! a saved `state_dict` mentions: `collections.OrderedDict`, the functions of `torch._utils` that make
//! tensors and parameters, storages and element types. Every other global is
//! [an error](TensorNodeError::PickledGlobal) that names it, and nothing is called.
//!
//! Dictionaries and lists may be nested, as in checkpoints of a training loop; the names of their tensors
//! are joined by dots. Numbers, texts and the like beside tensors are left out. Tensors may share storages
//! and may be transposed or otherwise strided; a tensor with more elements than its storage is rejected.
//! Files of torch before 1.6, which are no zip archives, files in big-endian order and compressed entries are
//! rejected.
//!
//! Files are untrusted input: memory and time are at most in proportion to the size of the file.

mod pickle; // values of a pickle
mod pickled_tensors; // tensors among these values

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, SeekFrom};

use zip::{CompressionMethod, ZipArchive};

use self::pickle::Pickle;
use self::pickled_tensors::{PickledTensor, pickled_tensors};
use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::host_array::HostArray;
use crate::padding::{Dims, checked_elems};

const FORMAT: &str = "torch";

/// The largest accepted pickle; one tensor takes about 150 bytes of it.
const MAX_PICKLE_BYTES: u64 = 1 << 25;

/// The most bytes of tensors for each byte of the file. Tensors with one storage are separate arrays.
const MAX_COPIES: u64 = 64;

/// The place of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Dims,
    /// Elements between neighbors along each axis.
    pub strides: Dims,
    /// The position of the first element in the file, in bytes.
    pub start: u64,
}

impl StoredTensor {
    /// Whether the elements lie in the file one after the other, row-major.
    pub fn is_contiguous(&self) -> bool {
        let mut next = 1;
        self.dims.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let is_dense = size == 1 || stride == next;
            next *= size.max(1);
            is_dense
        })
    }

    /// The bytes from the first to behind the last element.
    fn size_bytes(&self) -> usize {
        if self.dims.contains(&0) {
            return 0;
        }
        let last: usize = self.dims.iter().zip(&self.strides).map(|(size, stride)| (size - 1) * stride).sum();
        (last + 1) * self.dtype.size_bytes()
    }
}

/// Reads the bytes of a file. Returns its tensors by name.
///
/// ```
/// let error = tnode::torch::read(b"GGUF").unwrap_err().to_string();
/// assert!(error.starts_with("malformed torch: no zip archive"), "{error}");
/// ```
///
/// # Errors
/// The errors of [`stored_tensors`], or short memory.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, HostArray>> {
    let tensors = stored_tensors(Cursor::new(bytes))?;
    tensors.into_iter().map(|(name, tensor)| Ok((name, array(&tensor, bytes)?))).collect()
}

/// The places of the tensors in a file, by name. All of their elements lie within the file.
///
/// # Errors
/// When reading fails, the file is no archive of torch or contradicts itself, the pickle mentions a global
/// that is not known, an element type has no counterpart here, or an array has more than
/// [`MAX_RANK`](crate::MAX_RANK) axes.
pub fn stored_tensors(mut reader: impl Read + Seek) -> Result<BTreeMap<String, StoredTensor>> {
    check_start(&mut reader)?;
    let file_bytes = reader.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut archive = ZipArchive::new(reader).map_err(failed)?;
    let folder = folder(&archive)?;
    check_byte_order(&mut archive, &folder)?;
    let pickle = read_pickle(&mut archive, &format!("{folder}data.pkl"))?;
    let mut tensors = BTreeMap::new();
    let mut storages = BTreeMap::new();
    let mut total = 0u64;
    for (name, tensor) in pickled_tensors(&Pickle::read(&pickle)?)? {
        let storage = match storages.get(tensor.storage) {
            Some(&storage) => storage,
            None => {
                let storage = entry(&mut archive, &format!("{folder}data/{}", tensor.storage))?;
                storages.insert(tensor.storage, storage);
                storage
            }
        };
        let placed = placed(&name, tensor, storage, file_bytes)?;
        total = total.saturating_add((checked_elems(&placed.dims)? * placed.dtype.size_bytes()) as u64);
        tensors.insert(name, placed);
    }
    if total / MAX_COPIES > file_bytes {
        return Err(malformed(format!("{total} bytes of tensors in a file of {file_bytes} bytes")));
    }
    Ok(tensors)
}

/// Checks that the file is a zip archive, and names formats that are taken for this one.
fn check_start(reader: &mut (impl Read + Seek)) -> Result<()> {
    let mut start = Vec::new();
    reader.rewind().map_err(failed)?;
    reader.by_ref().take(4).read_to_end(&mut start).map_err(failed)?;
    match &start[..] {
        b"PK\x03\x04" => Ok(()),
        [0x80, ..] => Err(malformed(
            "a pickle that is in no zip archive, as torch before 1.6 wrote it; load and save it with torch",
        )),
        _ => Err(malformed("no zip archive, which `torch.save` writes")),
    }
}

/// The folder of the archive in which `data.pkl` is, with a slash.
fn folder<R: Read + Seek>(archive: &ZipArchive<R>) -> Result<String> {
    for name in archive.file_names() {
        let name = name.map_err(failed)?;
        if let Some(folder) = name.strip_suffix("data.pkl")
            && folder.find('/').is_none_or(|slash| slash + 1 == folder.len())
        {
            return Ok(folder.to_owned());
        }
    }
    Err(malformed("an archive without `data.pkl`, which `torch.save` writes"))
}

fn check_byte_order<R: Read + Seek>(archive: &mut ZipArchive<R>, folder: &str) -> Result<()> {
    let name = format!("{folder}byteorder");
    if archive.index_for_name(&name).is_none() {
        return Ok(()); // torch before 2.1
    }
    let mut order = Vec::new();
    archive.by_name(&name).map_err(failed)?.take(16).read_to_end(&mut order).map_err(failed)?;
    match &order[..] {
        b"little" => Ok(()),
        other => Err(malformed(format!(
            "the byte order is {:?}, expected \"little\"",
            String::from_utf8_lossy(other)
        ))),
    }
}

fn read_pickle<R: Read + Seek>(archive: &mut ZipArchive<R>, name: &str) -> Result<Vec<u8>> {
    let (_, size) = entry(archive, name)?;
    if size > MAX_PICKLE_BYTES {
        return Err(malformed(format!("a pickle of {size} bytes, expected at most {MAX_PICKLE_BYTES}")));
    }
    let mut pickle = Vec::new();
    archive.by_name(name).map_err(failed)?.take(size).read_to_end(&mut pickle).map_err(failed)?;
    Ok(pickle)
}

/// Where the bytes of an entry start in the file, and how many they are.
fn entry<R: Read + Seek>(archive: &mut ZipArchive<R>, name: &str) -> Result<(u64, u64)> {
    let position =
        archive.index_for_name(name).ok_or_else(|| malformed(format!("an archive without `{name}`")))?;
    let entry = archive.by_index_raw(position).map_err(failed)?;
    if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
        return Err(malformed(format!("`{name}` is {}, expected stored bytes", entry.compression())));
    }
    let start = entry.data_start().ok_or_else(|| malformed(format!("`{name}` has no place in the file")))?;
    Ok((start, entry.size()))
}

/// The place of a tensor in the file, if its elements lie within its storage, and this within the file.
fn placed(
    name: &str,
    tensor: PickledTensor<'_>,
    (start, size): (u64, u64),
    file_bytes: u64,
) -> Result<StoredTensor> {
    let PickledTensor { storage, storage_bytes, dtype, offset, dims, strides } = tensor;
    if storage_bytes != Some(size) || start.checked_add(size).is_none_or(|end| end > file_bytes) {
        let expected = storage_bytes.map_or_else(|| "fewer".to_owned(), |bytes| bytes.to_string());
        return Err(malformed(format!(
            "storage {storage:?} has {size} bytes of a file of {file_bytes}, expected {expected}"
        )));
    }
    let elements = size / dtype.size_bytes() as u64;
    let outside = || {
        let what = format!("dimensions {dims:?}, strides {strides:?} and offset {offset}");
        malformed(format!("tensor {name:?} has {what} in a storage of {elements} elements"))
    };
    let count = checked_elems(&dims)? as u64;
    let last = dims.iter().zip(&strides).try_fold(offset, |last, (&size, &stride)| {
        last.checked_add((size as u64).saturating_sub(1).checked_mul(stride as u64)?)
    });
    if count > elements || last.is_none_or(|last| count > 0 && last >= elements) {
        return Err(outside());
    }
    let first = if count == 0 { 0 } else { offset * dtype.size_bytes() as u64 };
    Ok(StoredTensor { dtype, start: start + first, dims, strides })
}

fn array(tensor: &StoredTensor, file: &[u8]) -> Result<HostArray> {
    let bytes = usize::try_from(tensor.start).ok().and_then(|start| file.get(start..));
    let bytes = bytes.and_then(|bytes| bytes.get(..tensor.size_bytes()));
    let bytes = bytes.ok_or_else(|| malformed("a tensor beyond the end of the file"))?;
    let mut array = match tensor.is_contiguous() {
        true => HostArray::from_bytes(tensor.dtype, tensor.dims.iter().copied(), bytes)?,
        false => HostArray::from_strided(tensor.dtype, tensor.dims.clone(), &tensor.strides, bytes)?,
    };
    array.normalize_bools();
    Ok(array)
}

fn failed(source: impl Into<std::io::Error>) -> TensorNodeError {
    TensorNodeError::File { format: FORMAT, source: source.into() }
}

fn malformed(why: impl Into<String>) -> TensorNodeError {
    TensorNodeError::Malformed { format: FORMAT, why: why.into() }
}
