//! The headers of safetensors files.

use std::{io::Read, path::Path, sync::Arc};

use safetensors::{Dtype, SafeTensorError, tensor::Metadata};

use crate::{
    encoding::Encoding,
    error::{InFile, Result, format_error},
    weights::{WeightFile, Weights},
};

/// The longest header that is read, as in the format's own library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Adds the tensors of a file, after a check that they lie within it.
pub(crate) fn add_file(weights: &mut Weights, path: &Path) -> Result<()> {
    let file = Arc::new(WeightFile::open(path)?);
    let (start, metadata) = header(&file).in_file(path)?;
    for (name, info) in metadata.tensors() {
        let encoding = match info.dtype {
            Dtype::F64 => Encoding::F64,
            Dtype::F32 => Encoding::F32,
            Dtype::F16 => Encoding::F16,
            Dtype::BF16 => Encoding::Bf16,
            other => {
                weights.note_other(name, format!("{other:?}").to_lowercase());
                continue;
            }
        };
        let offset = start + info.data_offsets.0 as u64;
        weights.add(name, &file, offset, info.shape.clone(), encoding).in_file(path)?;
    }
    Ok(())
}

/// Where the data starts, and the description of the tensors.
fn header(file: &WeightFile) -> Result<(u64, Metadata)> {
    let mut reader = file.reader(0);
    let mut length = [0; 8];
    reader.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES.min(file.len()) {
        let expected = format!("at most {MAX_HEADER_BYTES}, and within the {} bytes of the file", file.len());
        return Err(format_error("the length of the header", length, expected));
    }
    let mut text = Vec::new();
    reader.take(length).read_to_end(&mut text)?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(SafeTensorError::InvalidHeaderDeserialization)?;
    let data = file.len().saturating_sub(8 + length);
    if metadata.data_len() as u64 != data {
        let found = format!("{data} bytes");
        return Err(format_error("the data", found, format!("{}, as the header says", metadata.data_len())));
    }
    Ok((8 + length, metadata))
}
