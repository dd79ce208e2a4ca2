//! The error of this crate.

use std::{
    io,
    path::{Path, PathBuf},
};

use arrayjit_tensor::TensorError;
use tnode::TensorNodeError;

/// The result of loading and running models.
pub(crate) type Result<T, E = ModelError> = std::result::Result<T, E>;

/// The reason why a model cannot be loaded or run: the file, tensor, key of the configuration or option, the
/// expected value, and the value found.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ModelError {
    /// A file of the model that cannot be used.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: Box<ModelError> },
    /// A file that cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file that is not the JSON that it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A safetensors file whose header contradicts itself.
    #[error("the header is not that of a safetensors file: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A file of weights that contradicts itself or its size.
    #[error("{what} is {found}, expected {expected}")]
    Format { what: String, found: String, expected: String },
    /// An architecture that this crate does not have.
    #[error("the architecture is `{found}`, expected one of {}", known.join(", "))]
    Architecture { found: String, known: &'static [&'static str] },
    /// A key of a configuration with a value that the model does not take.
    #[error("`{key}` of the configuration is {found}, expected {expected}")]
    Config { key: String, found: String, expected: String },
    /// Tensors that the architecture needs and the files do not have, with their shapes.
    #[error("the weights lack {}", list(tensors))]
    Missing { tensors: Vec<(String, Vec<usize>)> },
    /// A tensor whose shape is not that of the configuration.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?} by the configuration")]
    Shape { name: String, found: Vec<usize>, expected: Vec<usize> },
    /// A tensor in a type that this crate does not read.
    #[error("tensor `{name}` is stored as {found}, expected one of {expected}")]
    Encoding { name: String, found: String, expected: &'static str },
    /// A tokenizer that cannot be made, or a text that it does not take.
    #[error("the tokenizer: {0}")]
    Tokenizer(String),
    /// A dialogue with a model whose files have no chat template.
    #[error("the model has no chat template: it continues texts, by `generate`")]
    NoChatTemplate,
    /// A chat template that cannot be parsed, or fails for these messages.
    #[error("the chat template: {0}")]
    ChatTemplate(String),
    /// A chat template that computes or writes too much.
    #[error("the chat template takes more than {limit} steps of computation or of 64 bytes")]
    ChatTemplateLimit { limit: u64 },
    /// Messages that the chat template rejects, with its reason.
    #[error("the chat template rejects the messages: {reason}")]
    ChatRejected { reason: String },
    /// A batch whose thread an error of the device has ended.
    #[error("the batch has ended: {reason}")]
    BatchEnded { reason: String },
    /// Tokens that the model has no embedding of.
    #[error(
        "token {token} is outside of the model's vocabulary of {vocabulary}; is it another model's tokenizer?"
    )]
    Token { token: u32, vocabulary: usize },
    /// A prompt without tokens.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// A prompt that does not fit.
    #[error("the prompt has {tokens} tokens, but the context of the model has {context}")]
    PromptLength { tokens: usize, context: usize },
    /// Sound without samples.
    #[error("the sound has no samples")]
    EmptyAudio,
    /// Sound with another number of samples in a second than the model takes.
    #[error("the sound has {found} samples in a second, expected {expected}: resample it")]
    SampleRate { found: usize, expected: usize },
    /// A sample of sound that is NaN or infinite.
    #[error("sample {at} of the sound is {found}, expected a finite number")]
    Sample { at: usize, found: f32 },
    /// A language that a speech model does not know.
    #[error("the language is `{found}`, expected one of {known}")]
    Language { found: String, known: String },
    /// An option of a call that is out of range.
    #[error("option `{option}` is {found}, expected {expected}")]
    Option { option: &'static str, found: String, expected: &'static str },
    /// An error of the compiler or of the device.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An array that cannot be made.
    #[error(transparent)]
    Array(#[from] TensorNodeError),
}

tnode::debug_as_display!(ModelError);

impl ModelError {
    /// Adds the file in which the problem is.
    pub(crate) fn in_file(self, path: &Path) -> ModelError {
        match self {
            ModelError::File { .. } => self,
            problem => ModelError::File { path: path.to_owned(), problem: Box::new(problem) },
        }
    }
}

/// Attaches a path to the errors of a result.
pub(crate) trait InFile<T> {
    fn in_file(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<ModelError>> InFile<T> for Result<T, E> {
    fn in_file(self, path: &Path) -> Result<T> {
        self.map_err(|error| error.into().in_file(path))
    }
}

/// An inconsistency in a file of weights.
pub(crate) fn format_error(
    what: impl Into<String>,
    found: impl ToString,
    expected: impl Into<String>,
) -> ModelError {
    ModelError::Format { what: what.into(), found: found.to_string(), expected: expected.into() }
}

/// The first tensors of a list, and the number of the others.
fn list(tensors: &[(String, Vec<usize>)]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> =
        tensors.iter().take(SHOWN).map(|(name, shape)| format!("`{name}` {shape:?}")).collect();
    if tensors.len() > SHOWN {
        shown.push(format!("{} others", tensors.len() - SHOWN));
    }
    shown.join(", ")
}
