//! Speech models: loading and transcription.

use std::path::Path;

use arrayjit_tensor::{Backend, DType, Executable, Graph, HostArray, ModelState, TensorError};

use crate::{
    cached_decoder::{CHUNK, CachedDecoder},
    config::Config,
    decoder::CacheSize,
    error::{InFile, ModelError, Result},
    language_model::LoadOptions,
    loader::Loader,
    log_mel::{LogMel, LogMelConfig, LogMelTables},
    sampling::{GenerateOptions, Sampler},
    speech_times::TimeTokens,
    speech_tokens::{SpeechTask, SpeechTokens, code},
    text_tokenizer::TextTokenizer,
    weight_folder,
    whisper::{Encoder, WhisperConfig, WhisperDecoder},
};

/// How [`SpeechModel::transcribe`] reads a recording and writes its text.
///
/// ```
/// use arrayjit_models::TranscribeOptions;
///
/// let options = TranscribeOptions { language: Some("de".to_owned()), ..TranscribeOptions::default() };
/// assert_eq!(options.sample_rate, 16_000);
/// ```
#[derive(Clone, Debug)]
pub struct TranscribeOptions {
    /// The number of samples in a second, which must be that of the model; 16,000 by default.
    pub sample_rate: usize,
    /// The code of the language, such as `de`; if there is none, the model detects it in the first window.
    pub language: Option<String>,
    /// Whether the model transcribes, as by default, or translates.
    pub task: SpeechTask,
    /// The most tokens of a window; by default as many as the model can write.
    pub max_tokens: usize,
    /// Whether the model writes times, by which the segments are split; if not, as by default, they are the
    /// windows.
    pub timestamps: bool,
    /// Logits are divided by it; 0, the default, chooses the likeliest token always.
    pub temperature: f32,
    /// The seed of the choices.
    pub seed: u64,
}

impl Default for TranscribeOptions {
    fn default() -> TranscribeOptions {
        TranscribeOptions {
            sample_rate: 16_000,
            language: None,
            task: SpeechTask::default(),
            max_tokens: usize::MAX,
            timestamps: false,
            temperature: 0.0,
            seed: 0,
        }
    }
}

/// The text of a recording with its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcription {
    /// The texts of all segments.
    pub text: String,
    /// The code of the language that was given or detected; none without either.
    pub language: Option<String>,
    /// The windows of sound, or with [`timestamps`](TranscribeOptions::timestamps) their parts, in order.
    pub segments: Vec<SpeechSegment>,
}

/// The text of a window of sound, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeechSegment {
    /// Where the sound starts, in seconds.
    pub start: f64,
    /// Where it ends, in seconds.
    pub end: f64,
    /// The text as the model writes it, often with a blank in front.
    pub text: String,
    /// The tokens of the text, including the times.
    pub tokens: Vec<u32>,
}

/// The segments of a recording so far, and the options.
struct Transcript<'o> {
    options: &'o TranscribeOptions,
    language: Option<String>,
    sampler: Sampler,
    segments: Vec<SpeechSegment>,
}

/// The frames of features from a time that the model can write to the next one.
const FRAMES_OF_STEP: usize = 2;

/// A speech recognition model with its tokenizer: Whisper.
///
/// ```no_run
/// use arrayjit_models::{SpeechModel, TranscribeOptions};
///
/// let mut model = SpeechModel::load("whisper-tiny")?;
/// let samples = vec![0.0; 16_000]; // a second of silence, at 16 kHz
/// println!("{}", model.transcribe(&samples, &TranscribeOptions::default())?.text);
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
pub struct SpeechModel {
    log_mel: LogMel,
    encode: Executable,
    decoder: CachedDecoder,
    tokens: SpeechTokens,
    tokenizer: TextTokenizer,
    input: LogMelConfig,
}

impl SpeechModel {
    /// Loads a folder with `config.json`, `generation_config.json`, `preprocessor_config.json`,
    /// `tokenizer.json` and safetensors files or `pytorch_model.bin`, and compiles the model for the backend
    /// `multicore`.
    ///
    /// # Errors
    /// A file that is missing or contradicts itself or another one, an architecture that the crate does not
    /// have, missing tensors, or an error of the device.
    pub fn load(folder: impl AsRef<Path>) -> Result<SpeechModel> {
        SpeechModel::load_with(folder, &LoadOptions::default())
    }

    /// [`load`](SpeechModel::load) with options. The context has the tokens of a window, and 4 in front of
    /// them.
    ///
    /// # Errors
    /// Fails like [`load`](SpeechModel::load), or if the model writes fewer tokens than the context has.
    pub fn load_with(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<SpeechModel> {
        let folder = folder.as_ref();
        let path = folder.join("config.json");
        let keys = Config::read(&path)?;
        let config = WhisperConfig::read(&keys).in_file(&path)?;
        let context = options.context.unwrap_or(config.context);
        if !(1..=config.context).contains(&context) {
            let expected = "from 1 to the number of positions that the model was made for";
            return Err(ModelError::Option { option: "context", found: context.to_string(), expected });
        }
        let path = folder.join("preprocessor_config.json");
        let input = read_input(&Config::read(&path)?, &config).in_file(&path)?;
        let tokenizer = TextTokenizer::read(&folder.join("tokenizer.json"))?;
        let path = folder.join("generation_config.json");
        let generation = Config::read_optional(&path)?;
        let tokens = SpeechTokens::read(&generation, &keys, &tokenizer, config.vocabulary).in_file(&path)?;
        let backend = match &options.backend {
            Some(backend) => backend.clone(),
            None => Backend::open("multicore").map_err(TensorError::from)?,
        };
        let weights = weight_folder::open_folder(folder)?;
        let loader = Loader::new(&weights, options.weights, &backend);
        let size = CacheSize { slots: 1, context, chunk: CHUNK };
        let encoder = Encoder::new(&loader, &config).in_file(folder)?;
        let decoder = WhisperDecoder::new(&loader, &config, size).in_file(folder)?;
        loader.check().in_file(folder)?;
        let tables = LogMelTables::new(&loader, input)?;
        let state = ModelState::new(&backend, &loader.finish()?)?;
        Ok(SpeechModel {
            log_mel: tables.compile(&state)?,
            encode: compile_encoder(&encoder, &decoder, input, &state)?,
            decoder: CachedDecoder::compile(&decoder, &state, config.vocabulary, size)?,
            tokens,
            tokenizer,
            input,
        })
    }

    /// The number of samples in a second of sound that the model takes.
    pub fn sample_rate(&self) -> usize {
        self.input.rate
    }

    /// The codes of the languages that the model knows; none if it knows one only.
    pub fn languages(&self) -> impl Iterator<Item = &str> {
        self.tokens.languages()
    }

    /// Transcribes a recording of any length, whose samples are from -1 to 1. Windows are transcribed one
    /// after the other, each of 30 seconds in all published models.
    ///
    /// Without [`timestamps`](TranscribeOptions::timestamps) a window begins where the last one ends, so a
    /// word at the border may be lost or written twice. With them, it begins at the last pair of times that
    /// the model has written, so what was cut off is heard again.
    ///
    /// # Errors
    /// No samples, one that is not finite, another sample rate than the model's, a language or a task that it
    /// does not know, times that it does not have, an option that is out of range, a context without room, or
    /// an error of the device.
    pub fn transcribe(&mut self, samples: &[f32], options: &TranscribeOptions) -> Result<Transcription> {
        self.check(samples, options)?;
        let mut transcript = Transcript {
            options,
            language: options.language.as_deref().map(|name| code(name).to_owned()),
            sampler: sampler(options)?,
            segments: Vec::new(),
        };
        match options.timestamps {
            true => self.transcribe_timed(samples, &mut transcript)?,
            false => self.transcribe_windows(samples, &mut transcript)?,
        }
        let Transcript { language, segments, .. } = transcript;
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        Ok(Transcription { text: text.trim().to_owned(), language, segments })
    }

    fn transcribe_windows(&mut self, samples: &[f32], transcript: &mut Transcript<'_>) -> Result<()> {
        let (window, rate) = (self.input.window, self.input.rate as f64);
        for (at, heard) in samples.chunks(window).enumerate() {
            self.hear(&self.log_mel.features(heard)?)?;
            let tokens = self.write(transcript, None)?;
            let start = (at * window) as f64 / rate;
            let end = start + heard.len() as f64 / rate;
            transcript.segments.push(SpeechSegment { start, end, text: self.text(&tokens)?, tokens });
        }
        Ok(())
    }

    /// Transcribes windows. Each one begins where the segments of the last one end.
    fn transcribe_timed(&mut self, samples: &[f32], transcript: &mut Transcript<'_>) -> Result<()> {
        let times = self.tokens.times()?;
        let recording = self.log_mel.recording(samples)?;
        let (window, frames) = (self.input.frames(), (samples.len() / self.input.hop).max(1));
        let seconds = self.input.hop as f64 / self.input.rate as f64;
        let mut first = 0;
        while first < frames {
            self.hear(&recording.features(first)?)?;
            let tokens = self.write(transcript, Some(times))?;
            let heard = window.min(frames - first);
            let (segments, again) = times.split(&tokens, heard / FRAMES_OF_STEP);
            for segment in segments {
                let [start, end] =
                    [segment.start, segment.end].map(|step| (first + FRAMES_OF_STEP * step) as f64 * seconds);
                let (text, tokens) = (self.text(segment.tokens)?, segment.tokens.to_vec());
                transcript.segments.push(SpeechSegment { start, end, text, tokens });
            }
            first += again.map_or(heard, |step| FRAMES_OF_STEP * step);
        }
        Ok(())
    }

    /// Decodes tokens, leaving out times.
    fn text(&self, tokens: &[u32]) -> Result<String> {
        let words: Vec<u32> =
            tokens.iter().copied().filter(|&token| !self.tokens.is_timestamp(token)).collect();
        self.tokenizer.decode(&words)
    }

    /// The log-mel features of the first window of samples, `[bands, frames]` in rows.
    ///
    /// # Errors
    /// No samples, one that is not finite, or an error of the device.
    pub fn log_mel(&self, samples: &[f32]) -> Result<Vec<f32>> {
        check_samples(samples)?;
        Ok(self.log_mel.features(samples)?.as_slice::<f32>()?.to_vec())
    }

    /// The logits of the token behind a text that the model writes of the first window of samples.
    ///
    /// # Errors
    /// No samples, one that is not finite; no tokens, more than the context has, or one outside of the
    /// vocabulary; an error of the device.
    pub fn logits(&mut self, samples: &[f32], text: &[u32]) -> Result<Vec<f32>> {
        check_samples(samples)?;
        self.decoder.check(text)?;
        self.hear(&self.log_mel.features(samples)?)?;
        self.decoder.logits(0, text)
    }

    fn check(&self, samples: &[f32], options: &TranscribeOptions) -> Result<()> {
        let (found, expected) = (options.sample_rate, self.input.rate);
        if found != expected {
            return Err(ModelError::SampleRate { found, expected });
        }
        check_samples(samples)?;
        if let Some(language) = &options.language {
            self.tokens.prompt(Some(language), options.task)?;
        }
        if options.timestamps {
            self.tokens.times()?;
        }
        Ok(())
    }

    /// Computes the keys and values of the features of a window.
    fn hear(&mut self, features: &HostArray) -> Result<()> {
        self.encode.run(&[("features", features)])?;
        // The keys and values of tokens depend on those of the encoder.
        self.decoder.forget(0);
        Ok(())
    }

    /// Writes the text of the window that was heard, up to a token that ends texts, in the language that is
    /// given or likeliest. Returns the tokens before the last one, with times if there are tokens of them.
    fn write(&mut self, transcript: &mut Transcript<'_>, times: Option<TimeTokens>) -> Result<Vec<u32>> {
        let TranscribeOptions { task, max_tokens, .. } = *transcript.options;
        if transcript.language.is_none() {
            let start = [self.tokens.start()];
            transcript.language = self.tokens.likeliest_language(&self.decoder.logits(0, &start)?);
        }
        let mut text = self.tokens.prompt(transcript.language.as_deref(), task)?;
        text.extend(self.tokens.no_timestamps().filter(|_| times.is_none()));
        self.decoder.check(&text)?;
        let start = text.len();
        while text.len() - start < max_tokens && text.len() < self.decoder.context() {
            let mut logits = self.decoder.logits(0, &text)?;
            self.tokens.suppress(&mut logits, text.len() == start);
            if let Some(times) = times {
                times.constrain(&mut logits, &text[start..]);
            }
            let token = transcript.sampler.choose(logits, &text[start..]);
            if self.tokens.is_end(token) {
                break;
            }
            text.push(token);
        }
        Ok(text.split_off(start))
    }
}

/// Reads the sizes of windows and checks them with those of the encoder.
fn read_input(keys: &Config, config: &WhisperConfig) -> Result<LogMelConfig> {
    let input = LogMelConfig::read(keys)?;
    if input.bands != config.bands {
        return Err(keys.misfit("feature_size", format!("{}, as `num_mel_bins` of the model", config.bands)));
    }
    if input.frames() != 2 * config.positions {
        let found = input.frames();
        let expected = format!("{} frames in a window rather than {found}", 2 * config.positions);
        return Err(keys.misfit("chunk_length", expected));
    }
    Ok(input)
}

/// The routine from features to the keys and values that the decoder attends to.
fn compile_encoder(
    encoder: &Encoder,
    decoder: &WhisperDecoder,
    input: LogMelConfig,
    state: &ModelState,
) -> Result<Executable> {
    let graph = Graph::new();
    let features = graph.input("features", [1, input.bands, input.frames()], DType::F32)?;
    let encoded = encoder.forward(&features)?;
    decoder.listen(&encoded)?;
    Ok(graph.compile_named("encode", state, &[&encoded])?)
}

fn check_samples(samples: &[f32]) -> Result<()> {
    if samples.is_empty() {
        return Err(ModelError::EmptyAudio);
    }
    match samples.iter().position(|sample| !sample.is_finite()) {
        Some(at) => Err(ModelError::Sample { at, found: samples[at] }),
        None => Ok(()),
    }
}

fn sampler(options: &TranscribeOptions) -> Result<Sampler> {
    let TranscribeOptions { temperature, seed, .. } = *options;
    let options = GenerateOptions { temperature, seed, ..GenerateOptions::default() };
    options.check()?;
    Ok(Sampler::new(&options))
}
