//! The tensors of the files of a model: where each is, and how it becomes an array.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrayjit_tensor::{BlockFormat, DType, HostArray, QuantizedArrays, QuantizedFormat};

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

/// Encoded bytes that are read at once.
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

    /// How the files store a tensor; none if they do not have it.
    pub(crate) fn encoding(&self, name: &str) -> Option<Encoding> {
        self.tensors.get(name).map(|tensor| tensor.encoding)
    }

    /// The values of a tensor in f32; none if the files do not have it. Beside the array, memory of
    /// [`CHUNK_BYTES`] or of a row is used.
    pub(crate) fn read(&self, name: &str) -> Result<Option<HostArray>, ModelError> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        if tensor.encoding == Encoding::F32 {
            return tensor.read_plain(DType::F32).map(Some);
        }
        let mut array = HostArray::zeros(DType::F32, tensor.shape.iter().copied())?;
        let (width, values) = (tensor.row_elements(), array.as_mut_slice::<f32>()?);
        tensor.read_rows(|rows, bytes| {
            for (row, bytes) in rows.iter().zip(bytes.chunks_exact(bytes.len() / rows.len())) {
                tensor.encoding.decode(bytes, &mut values[row * width..][..width])?;
            }
            Ok(())
        })?;
        Ok(Some(array))
    }

    /// The values of a tensor in the type of the files, or in f32 if that is no float of 16 bits; none if
    /// the files do not have it. Memory as for [`read`](Weights::read).
    pub(crate) fn read_stored(&self, name: &str) -> Result<Option<HostArray>, ModelError> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        match tensor.encoding {
            Encoding::F16 => tensor.read_plain(DType::F16).map(Some),
            Encoding::Bf16 => tensor.read_plain(DType::Bf16).map(Some),
            Encoding::F64 | Encoding::F32 | Encoding::Blocks(_) => self.read(name),
        }
    }

    /// The blocks of a matrix as packed weights; none if the files do not have it. Memory as for
    /// [`read`](Weights::read).
    pub(crate) fn read_packed(
        &self,
        name: &str,
        blocks: BlockFormat,
        format: QuantizedFormat,
    ) -> Result<Option<QuantizedArrays>, ModelError> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        let mut packed = QuantizedArrays::zeros(format)?;
        tensor.read_rows(|rows, bytes| Ok(packed.set_rows(rows, blocks, bytes)?))?;
        Ok(Some(packed))
    }
}

impl StoredTensor {
    /// The elements along the first axis. A vector is one row, unless its elements belong to heads.
    fn rows(&self) -> usize {
        match self.shape.as_slice() {
            [] => 1,
            [_] if self.paired_heads.is_none() || self.encoding.block_elements() > 1 => 1,
            [rows, ..] => *rows,
        }
    }

    fn row_elements(&self) -> usize {
        self.shape.iter().product::<usize>() / self.rows().max(1)
    }

    /// The row of the array that a row of the file becomes: in each head, the rows 0, 2, … are the first
    /// half.
    fn target(&self, row: usize) -> usize {
        match self.paired_heads {
            Some(size) if size >= 2 && size.is_multiple_of(2) && self.rows().is_multiple_of(size) => {
                let in_head = row % size;
                row - in_head + in_head % 2 * (size / 2) + in_head / 2
            }
            _ => row, // the shape is rejected where it is used
        }
    }

    /// Reads floats that files store as arrays do, straight into an array of their type.
    fn read_plain(&self, dtype: DType) -> Result<HostArray, ModelError> {
        let (width, path) = (self.row_elements() * dtype.size_bytes(), self.file.path());
        let mut array = HostArray::zeros(dtype, self.shape.iter().copied())?;
        let mut reader = BufReader::new(self.file.reader(self.offset)?);
        match self.paired_heads {
            None => reader.read_exact(array.bytes_mut()).in_file(path)?,
            Some(_) => {
                for row in 0..self.rows() {
                    let values = &mut array.bytes_mut()[self.target(row) * width..][..width];
                    reader.read_exact(values).in_file(path)?;
                }
            }
        }
        if cfg!(target_endian = "big") {
            array.bytes_mut().chunks_exact_mut(dtype.size_bytes()).for_each(<[u8]>::reverse);
        }
        Ok(array)
    }

    /// Calls a function with the bytes of some rows after the other, and with their positions in the array.
    fn read_rows(
        &self,
        mut take: impl FnMut(&[usize], &[u8]) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let (rows, path) = (self.rows(), self.file.path());
        let row_bytes = self.row_elements() / self.encoding.block_elements() * self.encoding.block_bytes();
        let mut reader = self.file.reader(self.offset)?;
        let in_chunk = (CHUNK_BYTES / row_bytes.max(1)).max(1);
        let mut chunk = Vec::new();
        for start in (0..if row_bytes == 0 { 0 } else { rows }).step_by(in_chunk) {
            let count = in_chunk.min(rows - start);
            chunk.resize(count * row_bytes, 0);
            reader.read_exact(&mut chunk).in_file(path)?;
            let targets: Vec<usize> = (start..start + count).map(|row| self.target(row)).collect();
            take(&targets, &chunk).in_file(path)?;
        }
        Ok(())
    }
}
