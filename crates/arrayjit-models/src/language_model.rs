//! Language models: loading, and the logits behind a text.

use std::path::Path;

use arrayjit_tensor::{Backend, ModelState};

use crate::{
    cached_decoder::{CHUNK, CachedDecoder},
    chat_template::ChatTemplate,
    config::Config,
    decoder::{CacheSize, DecoderConfig},
    dialogue::Dialogue,
    error::{InFile, ModelError, Result},
    generate::Generation,
    gguf,
    loader::Loader,
    sampling::GenerateOptions,
    text_tokenizer::TextTokenizer,
    weight_folder,
    weights::Weights,
};

/// The longest sequences of a model that was made for longer ones, unless
/// [`LoadOptions::context`] says otherwise: the buffers of keys and values have this length.
const CONTEXT: usize = 4096;

/// How weights of language models are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightStorage {
    /// In few bits as the file has them: integers with scales of GGUF files, and f16 and bf16. Products
    /// convert weights where they multiply them.
    #[default]
    Stored,
    /// In f32, decoded when the model is loaded: 2 to 7.1 times the memory.
    F32,
}

/// Where and how a language model runs.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// The backend; `multicore` if there is none.
    pub backend: Option<Backend>,
    /// The most tokens of a prompt and its continuation: at most the number that the model was made for, and
    /// by default that number or 4,096, whichever is less. Memory for keys and values grows with it.
    pub context: Option<usize>,
    /// How weights are kept in memory.
    pub weights: WeightStorage,
}

/// A language model with its tokenizer and the keys and values of the last text.
///
/// ```no_run
/// use arrayjit_models::{GenerateOptions, LanguageModel};
///
/// let mut model = LanguageModel::load("SmolLM2-135M-Instruct")?;
/// for token in model.generate("The capital of France is", &GenerateOptions::default())? {
///     print!("{}", token?.text);
/// }
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
pub struct LanguageModel {
    pub(crate) decoder: CachedDecoder,
    vocabulary: Vocabulary,
}

/// How a model reads and writes texts.
pub(crate) struct Vocabulary {
    pub(crate) tokenizer: TextTokenizer,
    pub(crate) template: Option<ChatTemplate>,
    /// Tokens that end a text.
    pub(crate) ends: Vec<u32>,
}

impl Vocabulary {
    fn of_folder(folder: &Path, config: &Config) -> Result<Vocabulary> {
        let generation_path = folder.join("generation_config.json");
        let mut ends = config.tokens("eos_token_id")?;
        ends.extend(
            Config::read_optional(&generation_path)?.tokens("eos_token_id").in_file(&generation_path)?,
        );
        let tokenizer = TextTokenizer::read(&folder.join("tokenizer.json"))?;
        let (template, end) = ChatTemplate::of_folder(folder)?;
        // The token that ends a message often differs from the one that ends a text.
        ends.extend(end.and_then(|text| tokenizer.token(&text)));
        Ok(Vocabulary { tokenizer, template, ends })
    }
}

impl LanguageModel {
    /// Loads a folder with `config.json`, `tokenizer.json` and safetensors files or `pytorch_model.bin`, or a
    /// GGUF file, and compiles the model for the backend `multicore`.
    ///
    /// # Errors
    /// A file that is missing or contradicts itself, an architecture that the crate does not have, missing
    /// tensors, or an error of the device.
    pub fn load(path: impl AsRef<Path>) -> Result<LanguageModel> {
        LanguageModel::load_with(path, &LoadOptions::default())
    }

    /// [`load`](LanguageModel::load) with options.
    ///
    /// # Errors
    /// Fails like [`load`](LanguageModel::load), or if the model was made for shorter texts than the context.
    pub fn load_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<LanguageModel> {
        LanguageModel::load_for(path.as_ref(), options, 1)
    }

    /// Loads a model with the keys and values of `slots` sequences.
    pub(crate) fn load_for(path: &Path, options: &LoadOptions, slots: usize) -> Result<LanguageModel> {
        let decoder = |config: &Config, weights: &Weights| {
            LanguageModel::compiled(config, weights, options, slots).in_file(path)
        };
        // Large vocabularies take as long as the weights.
        let (vocabulary, decoder) = if path.is_dir() {
            let config = Config::read(&path.join("config.json"))?;
            let weights = weight_folder::open_folder(path)?;
            rayon::join(|| Vocabulary::of_folder(path, &config), || decoder(&config, &weights))
        } else {
            let file = gguf::read(path)?;
            rayon::join(|| file.vocabulary().in_file(path), || decoder(&file.config, &file.weights))
        };
        Ok(LanguageModel { vocabulary: vocabulary?, decoder: decoder? })
    }

    fn compiled(
        config: &Config,
        weights: &Weights,
        options: &LoadOptions,
        slots: usize,
    ) -> Result<CachedDecoder> {
        let backend = match &options.backend {
            Some(backend) => backend.clone(),
            None => Backend::open("multicore").map_err(arrayjit_tensor::TensorError::from)?,
        };
        let config = DecoderConfig::read(config)?;
        let sizes = config.sizes();
        let context = options.context.unwrap_or(sizes.positions.min(CONTEXT));
        if !(1..=sizes.positions).contains(&context) {
            let expected = "from 1 to the number of positions that the model was made for";
            return Err(ModelError::Option { option: "context", found: context.to_string(), expected });
        }
        let loader = Loader::new(weights, options.weights, &backend);
        let size = CacheSize { slots, context, chunk: CHUNK };
        let decoder = config.build(&loader, size)?;
        let state = ModelState::new(&backend, &loader.finish()?)?;
        CachedDecoder::compile(&*decoder, &state, sizes.vocabulary, size)
    }

    /// The most tokens of a prompt and its continuation.
    pub fn context(&self) -> usize {
        self.decoder.context()
    }

    /// Returns the tokens of a text, between the marks that the tokenizer puts around it.
    ///
    /// # Errors
    /// A text that the tokenizer does not take.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        self.vocabulary.tokenizer.encode(text, true)
    }

    /// Returns the tokens of a prompt that has the marks of its beginning and end already, such as a rendered
    /// chat template.
    ///
    /// # Errors
    /// A text that the tokenizer does not take.
    pub fn tokens_of_template(&self, text: &str) -> Result<Vec<u32>> {
        self.vocabulary.tokenizer.encode(text, false)
    }

    /// Continues a prompt. The iterator computes a token each time it is asked for one.
    ///
    /// # Errors
    /// An option that is out of range; a prompt without tokens, or with more than the context has.
    pub fn generate(&mut self, prompt: &str, options: &GenerateOptions) -> Result<Generation<'_>> {
        let tokens = self.tokens(prompt)?;
        self.generate_from(tokens, options)
    }

    /// Answers the last message of a dialogue, which the chat template of the model writes as a text. A call
    /// whose dialogue begins as the last one did computes the new messages only.
    ///
    /// ```no_run
    /// use arrayjit_models::{GenerateOptions, LanguageModel, Message};
    ///
    /// let mut model = LanguageModel::load("SmolLM2-135M-Instruct")?;
    /// let mut dialogue = vec![Message::user("What is the capital of France?")];
    /// let mut answer = String::new();
    /// for token in model.chat(&dialogue, &GenerateOptions::default())? {
    ///     answer += &token?.text;
    /// }
    /// dialogue.push(Message::assistant(answer));
    /// # Ok::<(), arrayjit_models::ModelError>(())
    /// ```
    ///
    /// # Errors
    /// A model without a chat template, one that is wrong or rejects the messages, or an error of
    /// [`generate`](LanguageModel::generate).
    pub fn chat(
        &mut self,
        dialogue: impl Into<Dialogue>,
        options: &GenerateOptions,
    ) -> Result<Generation<'_>> {
        let tokens = self.chat_tokens(dialogue)?;
        self.generate_from(tokens, options)
    }

    /// Returns the text that the chat template makes of a dialogue, up to the beginning of an answer.
    ///
    /// # Errors
    /// A model without a chat template, or one that is wrong or rejects the messages.
    pub fn chat_text(&self, dialogue: impl Into<Dialogue>) -> Result<String> {
        self.vocabulary.template.as_ref().ok_or(ModelError::NoChatTemplate)?.render(&dialogue.into())
    }

    /// Returns the tokens of [`chat_text`](LanguageModel::chat_text).
    ///
    /// # Errors
    /// Fails like [`chat_text`](LanguageModel::chat_text), or for a text that the tokenizer does not take.
    pub fn chat_tokens(&self, dialogue: impl Into<Dialogue>) -> Result<Vec<u32>> {
        self.tokens_of_template(&self.chat_text(dialogue)?)
    }

    /// [`generate`](LanguageModel::generate) of a prompt that is tokens already.
    ///
    /// # Errors
    /// Fails like [`generate`](LanguageModel::generate).
    pub fn generate_from(&mut self, prompt: Vec<u32>, options: &GenerateOptions) -> Result<Generation<'_>> {
        self.decoder.check(&prompt)?;
        Generation::new(self, prompt, options)
    }

    /// The logits of the token behind a text. Tokens at its beginning that the last text had too are not
    /// computed again.
    ///
    /// # Errors
    /// No tokens, more than the context has, or one outside of the vocabulary; an error of the device.
    pub fn logits(&mut self, text: &[u32]) -> Result<Vec<f32>> {
        self.decoder.check(text)?;
        self.decoder.logits(0, text)
    }

    /// Whether a token ends a text.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.vocabulary.ends.contains(&token)
    }

    pub(crate) fn tokenizer(&self) -> &TextTokenizer {
        &self.vocabulary.tokenizer
    }
}
