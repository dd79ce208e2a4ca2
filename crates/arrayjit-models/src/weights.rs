//! The tensors of the files of a model: where each is, and how it becomes an array.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufReader, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrayjit_tensor::{BlockFormat, DType, HostArray, QuantizedArray, QuantizedFormat};
use rayon::prelude::*;
use tnode::FileReader;

use crate::{
    encoding::Encoding,
    error::{InFile, Result, format_error},
};

/// A file that tensors are read from.
pub(crate) struct WeightFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl WeightFile {
    pub(crate) fn open(path: &Path) -> Result<WeightFile> {
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

    /// A reader of the bytes from `offset`. Several may read at once.
    pub(crate) fn reader(&self, offset: u64) -> FileReader<'_> {
        FileReader::new(&self.file, offset)
    }
}

/// A tensor in a file.
struct StoredTensor {
    name_in_file: String,
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
    /// The types of tensors that no model computes with, such as integers.
    others: BTreeMap<String, String>,
    /// Whether a tensor that the model does not use is an error. Folders of the hub often have some.
    is_exact: bool,
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
    ) -> Result<()> {
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
        let (name_in_file, file) = (name.clone(), file.clone());
        let tensor = StoredTensor { name_in_file, file, offset, shape, encoding, paired_heads: None };
        self.tensors.insert(name, tensor);
        Ok(())
    }

    /// Notes a tensor of a type that is not read. It may be one that models have no use for, such as the
    /// positions of BERT.
    pub(crate) fn note_other(&mut self, name: String, found: String) {
        self.others.insert(name, found);
    }

    /// The type of a tensor that is not read.
    pub(crate) fn other(&self, name: &str) -> Option<&String> {
        self.others.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().chain(self.others.keys()).map(String::as_str)
    }

    /// The shape of a tensor; none if the files do not have it.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Gives every tensor another name. From now on a model must use all of them.
    pub(crate) fn renamed(self, rename: impl Fn(&str) -> String) -> Weights {
        let tensors: BTreeMap<_, _> =
            self.tensors.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
        Weights { tensors, is_exact: true, others: self.others }
    }

    /// Fails if a model must use all tensors, and uses these alone.
    pub(crate) fn check_used(&self, used: &BTreeSet<String>) -> Result<()> {
        let unused = self.tensors.iter().find(|(name, _)| self.is_exact && !used.contains(*name));
        unused.map_or(Ok(()), |(_, tensor)| {
            let what = format!("tensor `{}`", tensor.name_in_file);
            Err(format_error(what, "in the file", "tensors that the model computes with"))
        })
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

    /// Takes a tensor out, and returns its values in f32; none if the files do not have it.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<HostArray>> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        let mut array = HostArray::zeros(DType::F32, tensor.shape.iter().copied())?;
        self.read_floats(&[name.to_owned()], &mut array)?;
        self.tensors.remove(name);
        Ok(Some(array))
    }

    /// Reads tensors of one shape into an array of floats, one behind the other. The array has their type, or
    /// is f32. Threads divide the work, and each uses memory of about [`CHUNK_BYTES`] or of a head's rows.
    pub(crate) fn read_floats(&self, names: &[String], array: &mut HostArray) -> Result<()> {
        let tensors = self.stored(names);
        let Some(&first) = tensors.first() else { return Ok(()) };
        let (unit, width) = (first.rows_at_once(1), first.row_elements());
        let is_plain = |tensor: &&StoredTensor| tensor.encoding.dtype() == Some(array.dtype());
        if tensors.iter().all(is_plain) {
            let width = width * array.dtype().size_bytes();
            return each_part(&tensors, unit, vec![(array.bytes_mut(), unit * width)], |part, out| {
                let [out] = out else { return Ok(()) };
                part.read_plain(width, out)
            });
        }
        let values = array.as_mut_slice::<f32>()?;
        each_part(&tensors, unit, vec![(values, unit * width)], |part, out| {
            let [out] = out else { return Ok(()) };
            let (bytes, encoding) = (part.bytes()?, part.tensor.encoding);
            let rows = bytes.chunks_exact((bytes.len() / part.rows.len()).max(1));
            part.targets()
                .zip(rows)
                .try_for_each(|(row, bytes)| Ok(encoding.decode(bytes, &mut out[row * width..][..width])?))
        })
    }

    /// Reads the blocks of matrices of one shape into packed weights, one behind the other, like
    /// [`read_floats`](Weights::read_floats). `format` is that of one matrix.
    pub(crate) fn read_packed(
        &self,
        names: &[String],
        blocks: BlockFormat,
        format: QuantizedFormat,
        arrays: &mut [HostArray],
    ) -> Result<()> {
        let tensors = self.stored(names);
        let Some(&first) = tensors.first() else { return Ok(()) };
        let unit = first.rows_at_once(QuantizedFormat::PANEL_OUTPUTS);
        let of_rows = |rows: usize| QuantizedFormat::of_blocks(blocks, [rows, format.inputs()]);
        let sizes = of_rows(unit)?.arrays();
        let bytes = |array: &QuantizedArray| array.shape.iter().product::<usize>() * array.dtype.size_bytes();
        let arrays = arrays.iter_mut().zip(&sizes);
        let arrays = arrays.map(|(array, size)| (array.bytes_mut(), bytes(size))).collect();
        each_part(&tensors, unit, arrays, |part, arrays| {
            let targets: Vec<usize> = part.targets().collect();
            Ok(of_rows(part.rows.len())?.set_rows(arrays, &targets, blocks, &part.bytes()?)?)
        })
    }

    fn stored(&self, names: &[String]) -> Vec<&StoredTensor> {
        names.iter().filter_map(|name| self.tensors.get(name)).collect()
    }

    /// How the files store each of the tensors whose names begin so, by the rest of its name.
    pub(crate) fn encodings(&self, prefix: &str) -> Vec<(&str, Encoding)> {
        let tensors = self.tensors.range(prefix.to_owned()..);
        tensors.map_while(|(name, tensor)| Some((name.strip_prefix(prefix)?, tensor.encoding))).collect()
    }
}

/// Some rows of a tensor.
struct TensorPart<'a> {
    tensor: &'a StoredTensor,
    rows: Range<usize>,
}

/// Calls `read` with parts of `unit` rows of tensors, on several threads, and with the parts of arrays that
/// they become. Each array is given with its elements in `unit` rows.
fn each_part<T: Send>(
    tensors: &[&StoredTensor],
    unit: usize,
    arrays: Vec<(&mut [T], usize)>,
    read: impl Fn(&TensorPart<'_>, &mut [&mut [T]]) -> Result<()> + Sync,
) -> Result<()> {
    let ranges = |tensor: &StoredTensor| {
        let rows = tensor.rows();
        (0..rows).step_by(unit).map(move |start| start..rows.min(start + unit))
    };
    let parts =
        tensors.iter().flat_map(|&tensor| ranges(tensor).map(move |rows| TensorPart { tensor, rows }));
    let mut parts: Vec<_> = parts.map(|part| (part, Vec::new())).collect();
    for (array, in_unit) in arrays {
        let in_tensor = (array.len() / tensors.len()).max(1);
        let chunks = array.chunks_mut(in_tensor).flat_map(|tensor| tensor.chunks_mut(in_unit.max(1)));
        parts.iter_mut().zip(chunks).for_each(|((_, out), chunk)| out.push(chunk));
    }
    parts
        .into_par_iter()
        .try_for_each(|(part, mut out)| read(&part, &mut out).in_file(part.tensor.file.path()))
}

impl TensorPart<'_> {
    /// Reads the rows as the file has them.
    fn bytes(&self) -> Result<Vec<u8>> {
        let row_bytes = self.tensor.row_bytes();
        let mut bytes = vec![0; self.rows.len() * row_bytes];
        let start = self.tensor.offset + (self.rows.start * row_bytes) as u64;
        self.tensor.file.reader(start).read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Where each row goes, from the first of the part.
    fn targets(&self) -> impl Iterator<Item = usize> {
        self.rows.clone().map(|row| self.tensor.target(row).saturating_sub(self.rows.start))
    }

    /// Reads floats that files store as arrays do, in rows of `width` bytes.
    fn read_plain(&self, width: usize, out: &mut [u8]) -> Result<()> {
        let start = self.tensor.offset + (self.rows.start * width) as u64;
        let mut reader = BufReader::new(self.tensor.file.reader(start));
        match self.tensor.paired_heads {
            None => reader.read_exact(out)?,
            Some(_) => {
                for row in self.targets() {
                    reader.read_exact(&mut out[row * width..][..width])?;
                }
            }
        }
        if cfg!(target_endian = "big") {
            out.chunks_exact_mut(self.tensor.encoding.block_bytes()).for_each(<[u8]>::reverse);
        }
        Ok(())
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

    fn row_bytes(&self) -> usize {
        self.row_elements() / self.encoding.block_elements() * self.encoding.block_bytes()
    }

    /// How many rows are read at once: whole heads, and a multiple of `unit`.
    fn rows_at_once(&self, unit: usize) -> usize {
        let all = self.rows().max(1).next_multiple_of(unit);
        let heads = unit.saturating_mul(self.paired_heads.unwrap_or(1).max(1));
        (CHUNK_BYTES / self.row_bytes().max(1)).max(1).next_multiple_of(heads).min(all)
    }
}
