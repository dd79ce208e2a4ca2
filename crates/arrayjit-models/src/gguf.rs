//! GGUF files: weights, configuration and tokenizer of a language model in one file, as llama.cpp reads them.
//!
//! `reader.rs` reads the header, `names.rs` gives configuration and tensors the names that the hub's folders
//! have, and `vocabulary.rs` makes a tokenizer.

mod names;
mod reader;
mod vocabulary;

use std::path::Path;

use crate::{
    config::Config,
    error::{InFile, Result},
    language_model::Vocabulary,
    weights::Weights,
};

/// A model in a file.
pub(crate) struct GgufModel {
    pub(crate) config: Config,
    pub(crate) weights: Weights,
    metadata: Config,
}

/// Reads the header of a file.
pub(crate) fn read(path: &Path) -> Result<GgufModel> {
    let file = reader::read(path)?;
    let (config, weights) = names::translated(&file.metadata, file.weights).in_file(path)?;
    Ok(GgufModel { config, weights, metadata: file.metadata })
}

impl GgufModel {
    pub(crate) fn vocabulary(&self) -> Result<Vocabulary> {
        let tokenizer = vocabulary::tokenizer(&self.metadata)?;
        let ends = vocabulary::ends(&self.metadata, &tokenizer)?;
        Ok(Vocabulary { template: vocabulary::chat_template(&self.metadata)?, tokenizer, ends })
    }
}
