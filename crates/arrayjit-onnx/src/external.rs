//! Elements of arrays in files beside a model.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
};

use tnode::HostArray;

use crate::{
    array,
    budget::Budget,
    error::{OnnxError, Result},
    mapped::UnchangedFiles,
    proto::TensorProto,
};

/// The folder of a model, beyond which no file is read.
pub(crate) struct Folder {
    path: PathBuf,
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

impl Folder {
    /// The folder of a model file.
    pub(crate) fn of(model: &Path, unchanged: Option<UnchangedFiles>) -> Result<Folder> {
        let read = |source| OnnxError::Read { path: model.into(), source };
        let path = model.canonicalize().map_err(read)?;
        let path = path.parent().unwrap_or(&path).to_owned();
        Ok(Folder { path, stored: RefCell::default(), unchanged })
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
        let (dtype, dims) = (array::typed(tensor)?, array::dims(tensor)?);
        let count = dims.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let bytes = count.and_then(|count| array::packed_size(tensor, dtype, count));
        let (Some(count), Some(bytes)) = (count, bytes) else {
            return Err(fail("its size overflows".into()));
        };
        if source.length.is_some_and(|length| length != bytes as u64) {
            return Err(fail(format!(
                "its file has another length than the {bytes} bytes of {dtype}{dims:?}"
            )));
        }
        let read = |source| OnnxError::Read { path: path.clone(), source };
        let (mut file, metadata) = open(&path).map_err(read)?;
        let size = metadata.len();
        if source.offset.checked_add(bytes as u64).is_none_or(|end| end > size) {
            let problem = format!("{bytes} bytes from {} on leave the file of {size} bytes", source.offset);
            return Err(fail(problem));
        }
        let place = || format!("tensor `{}`", tensor.name);
        self.take(&path, &metadata, bytes as u64, budget).map_err(OnnxError::at(place()))?;
        if let Some(unchanged) = self.unchanged.filter(|_| !array::is_narrow(tensor))
            && let Some(mapping) = unchanged.part(&file, source.offset, bytes).map_err(read)?
        {
            return Ok(HostArray::from_mapping(dtype, dims, mapping)?);
        }
        file.seek(SeekFrom::Start(source.offset)).map_err(read)?;
        if !array::is_narrow(tensor) {
            let mut array = HostArray::zeros(dtype, dims)?;
            file.read_exact(array.bytes_mut()).map_err(read)?;
            return Ok(array);
        }
        let mut data = vec![0; bytes];
        file.read_exact(&mut data).map_err(read)?;
        array::exact(tensor, dtype, &dims, count, &data)
    }

    /// The path of a file within the folder, links resolved.
    fn contained(&self, location: &str) -> Result<PathBuf, String> {
        let relative = Path::new(location);
        let is_plain =
            relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if location.is_empty() || !is_plain {
            return Err(format!("its file `{location}` is no path within the folder of the model"));
        }
        let path = self.path.join(relative).canonicalize();
        let path = path.map_err(|error| format!("its file `{location}` cannot be read: {error}"))?;
        match path.starts_with(&self.path) {
            true => Ok(path),
            false => Err(format!("its file `{location}` is outside of the folder of the model")),
        }
    }
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
