//! How an embedding model reads texts, as the files of `sentence-transformers` say.

use std::path::Path;

use crate::{
    config::Config,
    error::{InFile, Result},
};

/// Names of the file of options. The first file that exists is read.
const FILES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// The changes of a text before it is divided into tokens.
pub(crate) struct SentenceConfig {
    /// The most tokens of a text, if the files bound it.
    pub(crate) max_length: Option<usize>,
    /// Whether letters become lowercase before the tokenizer normalizes them.
    pub(crate) lowercases: bool,
    /// Stands in front of each text; often empty.
    pub(crate) prompt: String,
}

impl SentenceConfig {
    /// Reads the files of a folder that are there.
    pub(crate) fn read(folder: &Path) -> Result<SentenceConfig> {
        let path = FILES.iter().map(|name| folder.join(name)).find(|path| path.exists());
        let path = path.unwrap_or_else(|| folder.join(FILES[0]));
        let options = Config::read_optional(&path)?;
        let max_length = options.size("max_seq_length").in_file(&path)?;
        let lowercases = options.flag("do_lower_case").in_file(&path)?.unwrap_or(false);
        let path = folder.join("tokenizer_config.json");
        // A tokenizer without a bound has 1e30.
        let of_tokenizer = Config::read_optional(&path)?.number("model_max_length").in_file(&path)?;
        let max_length = max_length.or(of_tokenizer.map(|length| length as usize));
        let path = folder.join("config_sentence_transformers.json");
        let prompt = default_prompt(&Config::read_optional(&path)?).in_file(&path)?;
        Ok(SentenceConfig { max_length, lowercases, prompt })
    }
}

fn default_prompt(config: &Config) -> Result<String> {
    if config.get("truncate_dim").is_some() {
        return Err(config.misfit("truncate_dim", "null: vectors are whole"));
    }
    let Some(name) = config.text("default_prompt_name")? else { return Ok(String::new()) };
    let prompts = config.object("prompts")?;
    let prompt = prompts.text(name)?.map(str::to_owned);
    prompt.ok_or_else(|| config.misfit("default_prompt_name", "a name in `prompts`"))
}
