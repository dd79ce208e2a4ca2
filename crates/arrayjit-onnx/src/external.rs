//! Elements of arrays in the file of a model, and in files beside it.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{File, Metadata},
    io::{self, Read},
    ops::Range,
    path::{Component, Path, PathBuf},
};

use rayon::{iter::*, slice::ParallelSliceMut};
use tnode::{FileReader, HostArray};

use crate::{
    array::Layout,
    budget::Budget,
    error::{OnnxError, Result},
    mapped::UnchangedFiles,
    proto::TensorProto,
};

/// The files of a model: its own, and those of its folder, beyond which no file is read.
pub(crate) struct ModelFiles {
    /// The model's file.
    own: File,
    own_path: PathBuf,
    /// The places of elements in it, by the position of the initializer in the main graph.
    elements: HashMap<usize, Range<u64>>,
    folder: PathBuf,
    /// The bytes of each file that are stored and that no array has yet. They need no budget.
    stored: RefCell<HashMap<PathBuf, u64>>,
    /// If files may be mapped, arrays are parts of them.
    unchanged: Option<UnchangedFiles>,
}

/// Opens a file that has an end: no pipe, device or folder, which could block for ever. Returns the size too.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    };
    regular(std::fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    // The file may have become a pipe since.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = regular(file.metadata()?)?;
    Ok((file, metadata))
}

/// The bytes of a file that are stored: those of its holes are not.
fn stored(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return metadata.len().min(std::os::unix::fs::MetadataExt::blocks(metadata).saturating_mul(512));
    #[cfg(not(unix))]
    return metadata.len();
}

/// The file with the elements of an array, and their place in it.
struct Source {
    location: String,
    offset: u64,
    length: Option<u64>,
}

impl ModelFiles {
    /// The files of a model that is in the file `own`.
    pub(crate) fn of(
        model: &Path,
        own: File,
        elements: HashMap<usize, Range<u64>>,
        unchanged: Option<UnchangedFiles>,
    ) -> Result<ModelFiles> {
        let read = |source| OnnxError::Read { path: model.into(), source };
        let path = model.canonicalize().map_err(read)?;
        let folder = path.parent().unwrap_or(&path).to_owned();
        let (own_path, stored) = (model.to_owned(), RefCell::default());
        Ok(ModelFiles { own, own_path, elements, folder, stored, unchanged })
    }

    /// The array of an initializer of the main graph whose elements were left in the model's file; none if
    /// they are in the message.
    ///
    /// # Errors
    /// Another number of bytes than the shape says, or a file that cannot be read.
    pub(crate) fn own_array(&self, initializer: usize, tensor: &TensorProto) -> Result<Option<HostArray>> {
        let Some(place) = self.elements.get(&initializer) else { return Ok(None) };
        let layout = Layout::of(tensor)?;
        layout.check(place.end - place.start)?;
        self.read(&layout, &self.own, &self.own_path, place.start).map(Some)
    }

    /// Takes the bytes of an array beyond those that the file stores and that no other array has.
    fn take(&self, path: &Path, metadata: &Metadata, bytes: u64, budget: &mut Budget) -> Result<()> {
        let mut all = self.stored.borrow_mut();
        let left = all.entry(path.to_owned()).or_insert_with(|| stored(metadata));
        let free = bytes.min(*left);
        budget.take(bytes - free)?;
        *left -= free;
        Ok(())
    }

    /// The array whose elements are in a file of the folder.
    ///
    /// # Errors
    /// A path that leaves the folder, a place outside of the file, or another number of bytes than the shape
    /// says.
    pub(crate) fn array(&self, tensor: &TensorProto, budget: &mut Budget) -> Result<HostArray> {
        let fail = |problem: String| OnnxError::invalid(format!("tensor `{}`", tensor.name), problem);
        let source = source(tensor).map_err(fail)?;
        let path = self.contained(&source.location).map_err(fail)?;
        let layout = Layout::of(tensor)?;
        let Layout { dtype, dims, bytes, .. } = &layout;
        if source.length.is_some_and(|length| length != *bytes as u64) {
            return Err(fail(format!(
                "its file has another length than the {bytes} bytes of {dtype}{dims:?}"
            )));
        }
        let (file, metadata) =
            open(&path).map_err(|source| OnnxError::Read { path: path.clone(), source })?;
        let size = metadata.len();
        if source.offset.checked_add(*bytes as u64).is_none_or(|end| end > size) {
            let problem = format!("{bytes} bytes from {} on leave the file of {size} bytes", source.offset);
            return Err(fail(problem));
        }
        let place = || format!("tensor `{}`", tensor.name);
        self.take(&path, &metadata, *bytes as u64, budget).map_err(OnnxError::at(place()))?;
        self.read(&layout, &file, &path, source.offset)
    }

    /// The array whose elements are in a file from `offset` on.
    fn read(&self, layout: &Layout<'_>, file: &File, path: &Path, offset: u64) -> Result<HostArray> {
        let read = |source| OnnxError::Read { path: path.to_owned(), source };
        let dims = || layout.dims.iter().copied();
        if let Some(unchanged) = self.unchanged.filter(|_| !layout.is_narrow())
            && let Some(mapping) = unchanged.part(file, offset, layout.bytes).map_err(read)?
        {
            return Ok(HostArray::from_mapping(layout.dtype, dims(), mapping)?);
        }
        if layout.is_narrow() {
            let mut data = vec![0; layout.bytes];
            read_at(file, offset, &mut data).map_err(read)?;
            return layout.array(&data);
        }
        let mut array = HostArray::zeros(layout.dtype, dims())?;
        read_at(file, offset, array.bytes_mut()).map_err(read)?;
        Ok(array)
    }

    /// The path of a file within the folder, links resolved.
    fn contained(&self, location: &str) -> Result<PathBuf, String> {
        let relative = Path::new(location);
        let is_plain =
            relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if location.is_empty() || !is_plain {
            return Err(format!("its file `{location}` is no path within the folder of the model"));
        }
        let path = self.folder.join(relative).canonicalize();
        let path = path.map_err(|error| format!("its file `{location}` cannot be read: {error}"))?;
        match path.starts_with(&self.folder) {
            true => Ok(path),
            false => Err(format!("its file `{location}` is outside of the folder of the model")),
        }
    }
}

/// The bytes that a thread reads at once. To map and fill new memory takes as long as to copy what the system
/// has of the file.
const CHUNK: usize = 1 << 20;

/// Fills memory with the bytes of a file from `offset` on, on several threads if they are many.
fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    if bytes.len() <= CHUNK {
        return FileReader::new(file, offset).read_exact(bytes);
    }
    let chunks = bytes.par_chunks_mut(CHUNK).enumerate();
    chunks.try_for_each(|(number, chunk)| {
        FileReader::new(file, offset + (number * CHUNK) as u64).read_exact(chunk)
    })
}

fn source(tensor: &TensorProto) -> Result<Source, String> {
    let mut source = Source { location: String::new(), offset: 0, length: None };
    for entry in &tensor.external_data {
        let number = || entry.value.parse().map_err(|_| format!("`{}` is no {}", entry.value, entry.key));
        match entry.key.as_str() {
            "location" => source.location = entry.value.clone(),
            "offset" => source.offset = number()?,
            "length" => source.length = Some(number()?),
            _ => {}
        }
    }
    Ok(source)
}
