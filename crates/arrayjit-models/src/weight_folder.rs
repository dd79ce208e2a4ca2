//! The files of weights of a folder: one, or several with an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde::Deserialize;

use crate::{
    error::{InFile, Result, format_error},
    safetensors_files, torch_files,
    weights::Weights,
};

/// An index, such as `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    /// The file of each tensor.
    weight_map: BTreeMap<String, String>,
}

/// Adds the tensors of a file.
type AddFile = fn(&mut Weights, &Path) -> Result<()>;

/// The files of weights that a folder may have, the preferred ones first.
const FORMATS: [(&str, AddFile); 2] =
    [("model.safetensors", safetensors_files::add_file), ("pytorch_model.bin", torch_files::add_file)];

/// The tensors of a folder.
pub(crate) fn open_folder(folder: &Path) -> Result<Weights> {
    let mut weights = Weights::default();
    for (name, add_file) in FORMATS {
        let (file, index) = (folder.join(name), folder.join(format!("{name}.index.json")));
        if index.exists() {
            for part in parts(&index)? {
                add_file(&mut weights, &folder.join(part))?;
            }
            return Ok(weights);
        }
        if file.exists() {
            add_file(&mut weights, &file)?;
            return Ok(weights);
        }
    }
    let names = FORMATS.map(|(name, _)| format!("`{name}`")).join(" or ");
    Err(format_error("the file of weights", "missing", format!("{names}, or several with an index"))
        .in_file(folder))
}

/// The files that an index names.
fn parts(index: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read(index).in_file(index)?;
    let parsed: Index = serde_json::from_slice(&text).in_file(index)?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    let is_plain = |name: &&String| !name.contains(['/', '\\', ':']) && !name.starts_with('.');
    match names.iter().find(|name| !is_plain(name)) {
        Some(name) => {
            let problem =
                format_error("the name of a file", format!("`{name}`"), "a file of the same folder");
            Err(problem.in_file(index))
        }
        None => Ok(names),
    }
}
