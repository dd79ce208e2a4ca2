//! Files of `torch.save`.

use std::{fs::File, io::BufReader, path::Path, sync::Arc};

use arrayjit_tensor::DType;
use tnode::torch;

use crate::{
    encoding::Encoding,
    error::{InFile, Result, format_error},
    weights::{WeightFile, Weights},
};

/// Adds the tensors of a file, after a check that they lie within it.
pub(crate) fn add_file(weights: &mut Weights, path: &Path) -> Result<()> {
    let tensors = torch::stored_tensors(BufReader::new(File::open(path).in_file(path)?)).in_file(path)?;
    let file = Arc::new(WeightFile::open(path)?);
    for (name, tensor) in tensors {
        let encoding = match tensor.dtype {
            DType::F64 => Encoding::F64,
            DType::F32 => Encoding::F32,
            DType::F16 => Encoding::F16,
            DType::Bf16 => Encoding::Bf16,
            other => {
                weights.note_other(name, other.to_string());
                continue;
            }
        };
        if !tensor.is_contiguous() {
            let (what, found) = (format!("the order of `{name}`"), format!("strides {:?}", tensor.strides));
            return Err(format_error(what, found, "rows after each other, as `contiguous()` makes them")
                .in_file(path));
        }
        weights.add(name, &file, tensor.start, tensor.dims.to_vec(), encoding).in_file(path)?;
    }
    Ok(())
}
