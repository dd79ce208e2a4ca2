//! The tensors of the files of a model: where each is, and how it becomes an array.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrayjit_tensor::{DType, HostArray};

use crate::{
    encoding::Encoding,
    error::{InFile, ModelError, format_error},
};

/// A file that tensors are read from.
pub(crate) struct WeightFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl WeightFile {
    pub(crate) fn open(path: &Path) -> Result<WeightFile, ModelError> {
        let file = File::open(path).in_file(path)?;
        let len = file.metadata().in_file(path)?.len();
        Ok(WeightFile { path: path.to_owned(), file, len })
    }

    /// The number of bytes in the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A reader of the bytes from `offset`.
    pub(crate) fn reader(&self, offset: u64) -> Result<impl Read + '_, ModelError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset)).in_file(&self.path)?;
        Ok(file)
    }
}

/// A tensor in a file.
struct StoredTensor {
    file: Arc<WeightFile>,
    offset: u64,
    shape: Vec<usize>,
    encoding: Encoding,
    /// The size of heads whose rows are stored in pairs, the first of each half and so on.
    paired_heads: Option<usize>,
}

/// The tensors of a model by name.
#[derive(Default)]
pub(crate) struct Weights {
    tensors: BTreeMap<String, StoredTensor>,
}

/// Encoded bytes that are decoded at once.
const CHUNK_BYTES: usize = 1 << 20;

impl Weights {
    /// Adds a tensor whose bytes start at `offset` of the file.
    ///
    /// # Errors
    /// A tensor that does not lie within the file, or a second one of that name.
    pub(crate) fn add(
        &mut self,
        name: String,
        file: &Arc<WeightFile>,
        offset: u64,
        shape: Vec<usize>,
        encoding: Encoding,
    ) -> Result<(), ModelError> {
        let bytes = encoding.size_bytes(&shape).ok_or_else(|| {
            format_error(format!("the shape of `{name}`"), format!("{shape:?}"), encoding.shapes())
        })?;
        match offset.checked_add(bytes) {
            Some(end) if end <= file.len() => {}
            _ => {
                let found = format!("{bytes} bytes at {offset}");
                let expected = format!("bytes within the {} of the file", file.len());
                return Err(format_error(format!("the place of `{name}`"), found, expected));
            }
        }
        if self.tensors.contains_key(&name) {
            return Err(format_error(format!("`{name}`"), "there twice", "one tensor of each name"));
        }
        self.tensors
            .insert(name, StoredTensor { file: file.clone(), offset, shape, encoding, paired_heads: None });
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor; none if the files do not have it.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Gives every tensor another name.
    pub(crate) fn renamed(self, rename: impl Fn(&str) -> String) -> Weights {
        let tensors = self.tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor));
        Weights { tensors: tensors.collect() }
    }

    /// Reads the rows of some tensors in another order: the rows 0, 2, … of each head of `size` rows, then
    /// the rows 1, 3, …
    pub(crate) fn split_pairs(&mut self, size: usize, is_paired: impl Fn(&str) -> bool) {
        for (name, tensor) in &mut self.tensors {
            tensor.paired_heads = is_paired(name).then_some(size);
        }
    }

    /// The values of a tensor in f32; none if the files do not have it. Beside the array, memory of
    /// [`CHUNK_BYTES`] is used.
    pub(crate) fn read(&self, name: &str) -> Result<Option<HostArray>, ModelError> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        let mut array = HostArray::zeros(DType::F32, tensor.shape.iter().copied())?;
        let mut reader = tensor.file.reader(tensor.offset)?;
        let (encoding, path) = (tensor.encoding, tensor.file.path());
        if encoding == Encoding::F32 && cfg!(target_endian = "little") {
            reader.read_exact(array.bytes_mut()).in_file(path)?;
        } else {
            read_blocks(&mut reader, encoding, array.as_mut_slice::<f32>()?).in_file(path)?;
        }
        if let Some(size) = tensor.paired_heads {
            split_pairs(&mut array, size)?;
        }
        Ok(Some(array))
    }
}

/// Reads and decodes the blocks of elements.
fn read_blocks(reader: &mut impl Read, encoding: Encoding, values: &mut [f32]) -> Result<(), ModelError> {
    let blocks = CHUNK_BYTES / encoding.block_bytes();
    let mut chunk = Vec::new();
    for values in values.chunks_mut(blocks * encoding.block_elements()) {
        chunk.resize(values.len() / encoding.block_elements() * encoding.block_bytes(), 0);
        reader.read_exact(&mut chunk)?;
        encoding.decode(&chunk, values)?;
    }
    Ok(())
}

/// Orders the rows of heads as [`Weights::split_pairs`] says.
fn split_pairs(array: &mut HostArray, size: usize) -> Result<(), ModelError> {
    let rows = array.dims().first().copied().unwrap_or(1);
    let stored = array.as_slice::<f32>()?.to_vec();
    let width = stored.len() / rows.max(1);
    if size < 2 || !size.is_multiple_of(2) || width == 0 || !rows.is_multiple_of(size) {
        return Ok(()); // the shape is rejected where it is used
    }
    for (at, row) in array.as_mut_slice::<f32>()?.chunks_mut(width).enumerate() {
        let (head, place) = (at / size, at % size);
        let from = head * size + place % (size / 2) * 2 + place / (size / 2);
        row.copy_from_slice(&stored[from * width..][..width]);
    }
    Ok(())
}
