//! The special tokens of speech models: prompts, suppressed tokens and ends of texts.

use std::collections::BTreeMap;

use crate::{
    config::Config,
    error::{ModelError, Result},
    speech_times::TimeTokens,
    text_tokenizer::TextTokenizer,
};

/// Says in which language a speech model writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeechTask {
    /// Writes the language that is spoken.
    #[default]
    Transcribe,
    /// Writes English.
    Translate,
}

/// The special tokens of a speech model.
pub(crate) struct SpeechTokens {
    start: u32,
    ends: Vec<u32>,
    no_timestamps: Option<u32>,
    times: Option<TimeTokens>,
    /// The token of each language by its code; none if the model has one language only.
    languages: BTreeMap<String, u32>,
    /// The tokens of [`SpeechTask`]; none if the model has one language only.
    tasks: Option<[u32; 2]>,
    suppressed: Vec<u32>,
    suppressed_first: Vec<u32>,
}

impl SpeechTokens {
    /// Reads `generation_config.json`, and keys of `config.json` that it does not have.
    ///
    /// # Errors
    /// A key that is missing or of another type, a token outside of the vocabulary, or one that the tokenizer
    /// has by another number.
    pub(crate) fn read(
        generation: &Config,
        config: &Config,
        tokenizer: &TextTokenizer,
        vocabulary: usize,
    ) -> Result<SpeechTokens> {
        let list = |key: &str| match generation.get(key) {
            Some(_) => generation.tokens(key),
            None => config.tokens(key),
        };
        let needed = |config: &Config, key: &str| {
            let first = config.tokens(key)?.first().copied();
            first.ok_or_else(|| config.misfit(key, "a token"))
        };
        let start = list("decoder_start_token_id")?.first().copied();
        let start = start.ok_or_else(|| generation.misfit("decoder_start_token_id", "a token"))?;
        let named = generation.object("lang_to_id")?;
        let mut languages = BTreeMap::new();
        for name in named.0.keys() {
            let token = needed(&named, name)?;
            check_token(tokenizer, name, token)?;
            languages.insert(code(name).to_owned(), token);
        }
        let tasks = match languages.is_empty() {
            true => None,
            false => {
                let tasks = generation.object("task_to_id")?;
                Some([needed(&tasks, "transcribe")?, needed(&tasks, "translate")?])
            }
        };
        check_token(tokenizer, "<|startoftranscript|>", start)?;
        let ends = list("eos_token_id")?;
        let no_timestamps = list("no_timestamps_token_id")?.first().copied();
        let times = match (no_timestamps, ends.first()) {
            (Some(none), Some(&end)) if (none as usize) + 1 < vocabulary => {
                let most_first = generation.size("max_initial_timestamp_index")?;
                Some(TimeTokens { zero: none + 1, end, most_first })
            }
            _ => None,
        };
        let tokens = SpeechTokens {
            start,
            ends,
            no_timestamps,
            times,
            languages,
            tasks,
            suppressed: list("suppress_tokens")?,
            suppressed_first: list("begin_suppress_tokens")?,
        };
        let unknown = tokens.all().find(|&token| token as usize >= vocabulary);
        match unknown {
            Some(token) => Err(ModelError::Token { token, vocabulary }),
            None => Ok(tokens),
        }
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        let lists = [&self.ends, &self.suppressed, &self.suppressed_first];
        let single =
            [self.start].into_iter().chain(self.no_timestamps).chain(self.tasks.into_iter().flatten());
        single.chain(self.languages.values().copied()).chain(lists.into_iter().flatten().copied())
    }

    /// The languages that the model knows; none if it knows one only.
    pub(crate) fn languages(&self) -> impl Iterator<Item = &str> {
        self.languages.keys().map(String::as_str)
    }

    /// The text behind which a model says which language it hears.
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// The likeliest language by the logits behind the start.
    pub(crate) fn likeliest_language(&self, logits: &[f32]) -> Option<String> {
        let logit = |token: &u32| logits.get(*token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let likeliest = self.languages.iter().max_by(|(_, a), (_, b)| logit(a).total_cmp(&logit(b)));
        likeliest.map(|(code, _)| code.clone())
    }

    /// The tokens of times.
    ///
    /// # Errors
    /// A model without them.
    pub(crate) fn times(&self) -> Result<TimeTokens> {
        let expected = "false: the model has no tokens for times";
        self.times.ok_or_else(|| ModelError::Option { option: "timestamps", found: "true".into(), expected })
    }

    /// The tokens in front of a text with times: the start, the language and the task.
    ///
    /// # Errors
    /// A language or task that the model does not know.
    pub(crate) fn prompt(&self, language: Option<&str>, task: SpeechTask) -> Result<Vec<u32>> {
        let mut prompt = vec![self.start];
        match (self.tasks, language) {
            (Some([transcribe, translate]), Some(language)) => {
                let token = self.languages.get(code(language)).ok_or_else(|| self.unknown(language))?;
                let task = if task == SpeechTask::Translate { translate } else { transcribe };
                prompt.extend([*token, task]);
            }
            (None, _) if task == SpeechTask::Translate => {
                let (option, found) = ("task", "Translate".to_owned());
                let expected = "Transcribe: the model knows one language";
                return Err(ModelError::Option { option, found, expected });
            }
            (None, Some(language)) if code(language) != "en" => return Err(self.unknown(language)),
            _ => {}
        }
        Ok(prompt)
    }

    /// The token behind the prompt of a text without times.
    pub(crate) fn no_timestamps(&self) -> Option<u32> {
        self.no_timestamps
    }

    fn unknown(&self, language: &str) -> ModelError {
        let known = match self.languages.is_empty() {
            true => "en".to_owned(),
            false => self.languages().collect::<Vec<_>>().join(", "),
        };
        ModelError::Language { found: language.to_owned(), known }
    }

    /// Makes it impossible that tokens are chosen which are no part of texts.
    pub(crate) fn suppress(&self, logits: &mut [f32], is_first: bool) {
        let first = self.suppressed_first.iter().filter(|_| is_first);
        for &token in self.suppressed.iter().chain(first) {
            logits[token as usize] = f32::NEG_INFINITY;
        }
    }

    /// Whether a token ends a text.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Whether a token is a time, which is no part of the text.
    pub(crate) fn is_timestamp(&self, token: u32) -> bool {
        self.no_timestamps.is_some_and(|none| token > none)
    }
}

/// The code of a language, such as `de` of `<|de|>`.
pub(crate) fn code(name: &str) -> &str {
    name.trim_start_matches("<|").trim_end_matches("|>")
}

/// Fails if the tokenizer has another number for a token.
fn check_token(tokenizer: &TextTokenizer, name: &str, expected: u32) -> Result<()> {
    match tokenizer.token(name) {
        Some(found) if found == expected => Ok(()),
        found => {
            let found = found.map_or_else(|| "missing".to_owned(), |token| token.to_string());
            let problem =
                format!("`{name}` is {found}, expected {expected}; is it another model's tokenizer?");
            Err(ModelError::Tokenizer(problem))
        }
    }
}
