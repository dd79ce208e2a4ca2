//! GGUF files: weights, configuration and tokenizer of a language model in one file, as llama.cpp reads them.
//!
//! `reader.rs` reads the header, `names.rs` gives configuration and tensors the names that the hub's folders
//! have, and `vocabulary.rs` makes a tokenizer.

mod names;
mod reader;
mod vocabulary;

use std::path::Path;

use crate::{
    error::{InFile, ModelError},
    language_model::ModelFiles,
};

/// The parts of the model in a file.
pub(crate) fn model_files(path: &Path) -> Result<ModelFiles, ModelError> {
    let file = reader::read(path)?;
    let tokenizer = vocabulary::tokenizer(&file.metadata).in_file(path)?;
    let ends = vocabulary::ends(&file.metadata, &tokenizer).in_file(path)?;
    let template = vocabulary::chat_template(&file.metadata).in_file(path)?;
    let (config, weights) = names::translated(file.metadata, file.weights).in_file(path)?;
    Ok(ModelFiles { config, weights, tokenizer, template, ends })
}
