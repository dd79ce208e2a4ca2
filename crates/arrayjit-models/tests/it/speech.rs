//! Whisper: features, logits and texts are those of transformers.

use std::path::Path;

use arrayjit_models::{LoadOptions, ModelError, SpeechModel, SpeechTask, TranscribeOptions, Transcription};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    generated::{byte_tokenizer, fixture, floats, folder, tensors, tokens, words, write_json, write_weights},
    language_models::assert_close,
};

#[path = "../../examples/transcribe.rs"]
#[expect(dead_code, reason = "a test calls no `main`")]
mod transcribe;

/// The samples of the fixtures: two tones, one of which comes and goes, and noise.
fn sound(count: usize) -> Vec<f32> {
    let sample = |(at, word): (usize, u32)| {
        let noise = f64::from(word >> 24) / 128.0 - 1.0;
        let second = if at / 4000 % 2 == 1 { 0.25 * (at as f64 * 0.9).sin() } else { 0.0 };
        ((0.5 * (at as f64 * 0.17).sin() + second) * 0.8 + noise * 0.02) as f32
    };
    words("sound", count).enumerate().map(sample).collect()
}

const SPECIAL: [&str; 7] = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|notimestamps|>",
];

/// A tokenizer of bytes, marks, and 37 times.
fn speech_tokenizer() -> Value {
    let times = (0..37).map(|time| format!("<|{:.2}|>", f64::from(time) / 50.0));
    let added: Vec<Value> = (256..)
        .zip(SPECIAL.map(str::to_owned).into_iter().chain(times))
        .map(|(id, content)| {
            json!({"id": id, "content": content, "special": id < 263, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false})
        })
        .collect();
    let mut tokenizer = byte_tokenizer();
    tokenizer["added_tokens"] = json!(added);
    tokenizer
}

fn speech_folder(name: &str, dtype: Dtype) -> (Value, TempDir) {
    let fixture = fixture(name);
    let folder = folder(&fixture, dtype, &speech_tokenizer());
    write_json(folder.path(), "generation_config.json", &fixture["generation"]);
    write_json(folder.path(), "preprocessor_config.json", &fixture["preprocessor"]);
    (fixture, folder)
}

fn options() -> TranscribeOptions {
    TranscribeOptions { max_tokens: 64, ..TranscribeOptions::default() }
}

/// Logits behind a prompt and behind 63 tokens more, and the tokens of all windows.
fn check(name: &str, dtype: Dtype) {
    let (fixture, folder) = speech_folder(name, dtype);
    let mut model = SpeechModel::load(folder.path()).unwrap();
    let samples = sound(40_000);
    let heard = model.transcribe(&samples, &options()).unwrap();
    let windows = fixture["windows"].as_array().unwrap();
    assert_eq!(heard.segments.len(), 3);
    for (at, (window, segment)) in windows.iter().zip(&heard.segments).enumerate() {
        let (prompt, expected) = (tokens(&window["prompt"]), tokens(&window["tokens"]));
        assert_eq!(segment.tokens, expected, "{name}, window {at}");
        assert_eq!((segment.start, segment.end), (at as f64, if at == 2 { 2.5 } else { at as f64 + 1.0 }));
        let rest = &samples[at * 16_000..];
        let text = [&prompt[..], &expected[..63]].concat();
        for (step, text) in [("0", &prompt), ("63", &text)] {
            let logits = floats(&window["logits"][step]);
            assert_close(name, &model.logits(&rest[..rest.len().min(16_000)], text).unwrap(), &logits);
        }
        let detected = model.transcribe(rest, &TranscribeOptions { max_tokens: 1, ..options() }).unwrap();
        let is_multilingual = fixture["generation"]["is_multilingual"].as_bool().unwrap();
        let language = window["language"].as_str().unwrap().to_owned();
        assert_eq!(detected.language, is_multilingual.then_some(language));
    }
}

#[test]
fn whisper() {
    check("whisper", Dtype::F32);
}

#[test]
fn whisper_english() {
    check("whisper_english", Dtype::F16);
}

/// The segments of a recording of two windows and a half, with fewer words, so that times are likely.
fn check_times(name: &str) {
    let (fixture, folder) = speech_folder(name, Dtype::F32);
    let mut generation = fixture["generation"].clone();
    generation["suppress_tokens"] = fixture["timed"]["suppress_tokens"].clone();
    write_json(folder.path(), "generation_config.json", &generation);
    let mut model = SpeechModel::load(folder.path()).unwrap();
    let timed = TranscribeOptions { timestamps: true, ..options() };
    let heard = model.transcribe(&sound(40_000), &timed).unwrap();
    let expected = fixture["timed"]["segments"].as_array().unwrap();
    assert_eq!(heard.segments.len(), expected.len());
    for (segment, expected) in heard.segments.iter().zip(expected) {
        assert_eq!(segment.tokens, tokens(&expected["tokens"]), "{name}");
        let close = |time: f64, expected: &Value| (time - expected.as_f64().unwrap()).abs() < 1e-9;
        assert!(
            close(segment.start, &expected["start"]) && close(segment.end, &expected["end"]),
            "{segment:?}"
        );
    }
    let short = model.transcribe(&sound(8_000), &timed).unwrap();
    assert!(short.segments.iter().all(|segment| segment.start < 0.5), "the sound is half a second long");
}

#[test]
fn segments_are_those_of_transformers() {
    check_times("whisper");
    check_times("whisper_english");
}

#[test]
fn a_model_without_times_rejects_them() {
    let (fixture, folder) = speech_folder("whisper_english", Dtype::F32);
    let mut generation = fixture["generation"].clone();
    generation["no_timestamps_token_id"] = Value::Null;
    write_json(folder.path(), "generation_config.json", &generation);
    let timed = TranscribeOptions { timestamps: true, ..options() };
    let error = SpeechModel::load(folder.path()).unwrap().transcribe(&sound(100), &timed).err().unwrap();
    assert_eq!(
        error.to_string(),
        "option `timestamps` is true, expected false: the model has no tokens for times"
    );
}

#[test]
fn features_are_those_of_transformers() {
    let (fixture, folder) = speech_folder("whisper", Dtype::F32);
    let model = SpeechModel::load(folder.path()).unwrap();
    let expected = floats(&fixture["mel"]);
    assert_eq!(expected.len(), 20 * 100);
    assert_close("features", &model.log_mel(&sound(16_000)).unwrap(), &expected);
    assert_close("the first window", &model.log_mel(&sound(40_000)).unwrap(), &expected);
}

#[test]
fn options_choose_the_text() {
    let (fixture, folder) = speech_folder("whisper", Dtype::F32);
    let options = LoadOptions { context: Some(12), ..LoadOptions::default() };
    let mut model = SpeechModel::load_with(folder.path(), &options).unwrap();
    assert_eq!((model.sample_rate(), model.languages().collect::<Vec<_>>()), (16_000, vec!["de", "en"]));
    let plain = TranscribeOptions::default;
    let mut transcribe = |options: TranscribeOptions| model.transcribe(&sound(16_000), &options).unwrap();
    let Transcription { text, language, segments } = transcribe(plain());
    assert_eq!(segments[0].tokens, tokens(&fixture["windows"][0]["tokens"])[..8], "the rest of the context");
    assert_eq!((segments[0].text.trim(), language.as_deref()), (text.as_str(), Some("de")));
    let named = transcribe(TranscribeOptions { language: Some("<|de|>".to_owned()), ..plain() });
    assert_eq!((named.language, named.segments), (language, segments.clone()));
    let sampled = |seed| TranscribeOptions { temperature: 20.0, seed, ..plain() };
    assert_eq!(transcribe(sampled(1)), transcribe(sampled(1)));
    assert_ne!(transcribe(sampled(1)), transcribe(sampled(2)));
    assert_ne!(transcribe(TranscribeOptions { task: SpeechTask::Translate, ..plain() }).segments, segments);
}

#[test]
fn sound_and_options_that_do_not_fit_are_errors() {
    let (_, folder) = speech_folder("whisper", Dtype::F32);
    let mut model = SpeechModel::load(folder.path()).unwrap();
    let plain = TranscribeOptions::default;
    let mut error = |samples: &[f32], options| model.transcribe(samples, &options).err().unwrap();
    assert!(matches!(error(&[], plain()), ModelError::EmptyAudio));
    let nan = [0.0, f32::NAN];
    assert!(matches!(error(&nan, plain()), ModelError::Sample { at: 1, .. }));
    let rate = TranscribeOptions { sample_rate: 44_100, ..plain() };
    assert!(matches!(error(&[0.0], rate), ModelError::SampleRate { found: 44_100, expected: 16_000 }));
    let french = TranscribeOptions { language: Some("fr".to_owned()), ..plain() };
    assert_eq!(error(&[0.0], french).to_string(), "the language is `fr`, expected one of de, en");
    let cold = TranscribeOptions { temperature: -1.0, ..plain() };
    assert!(matches!(error(&[0.0], cold), ModelError::Option { option: "temperature", .. }));
    assert!(matches!(model.logits(&[0.0], &[300]), Err(ModelError::Token { token: 300, .. })));
    assert!(matches!(model.log_mel(&[f32::INFINITY]), Err(ModelError::Sample { at: 0, .. })));

    let small = LoadOptions { context: Some(3), ..LoadOptions::default() };
    let mut model = SpeechModel::load_with(folder.path(), &small).unwrap();
    let error = model.transcribe(&[0.0], &plain()).err().unwrap();
    assert!(matches!(error, ModelError::PromptLength { tokens: 4, context: 3 }));

    let (_, folder) = speech_folder("whisper_english", Dtype::F32);
    let mut model = SpeechModel::load(folder.path()).unwrap();
    let mut error = |options| model.transcribe(&[0.0], &options).err().map(|error| error.to_string());
    let translate = TranscribeOptions { task: SpeechTask::Translate, ..plain() };
    assert!(error(translate).unwrap().starts_with("option `task` is Translate"));
    let language =
        |code: &str| TranscribeOptions { language: Some(code.to_owned()), max_tokens: 1, ..plain() };
    assert_eq!(error(language("de")).unwrap(), "the language is `de`, expected one of en");
    assert_eq!(error(language("en")), None);
}

#[test]
fn the_channels_of_a_wav_file_are_averaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sound.wav");
    let spec = |sample_format, bits_per_sample| hound::WavSpec {
        channels: 2,
        sample_rate: 8000,
        bits_per_sample,
        sample_format,
    };
    let mut writer = hound::WavWriter::create(&path, spec(hound::SampleFormat::Int, 16)).unwrap();
    for sample in [-32768, 0, 16384, 8192] {
        writer.write_sample(sample).unwrap();
    }
    writer.finalize().unwrap();
    assert_eq!(transcribe::read_wav(&path).unwrap(), (vec![-0.5, 0.375], 8000));
    let mut writer = hound::WavWriter::create(&path, spec(hound::SampleFormat::Float, 32)).unwrap();
    for sample in [0.25_f32, 0.75] {
        writer.write_sample(sample).unwrap();
    }
    writer.finalize().unwrap();
    assert_eq!(transcribe::read_wav(&path).unwrap(), (vec![0.5], 8000));
}

fn load_error(folder: &Path) -> ModelError {
    match SpeechModel::load(folder).err().unwrap() {
        ModelError::File { problem, .. } => *problem,
        error => error,
    }
}

#[test]
fn files_that_do_not_fit_are_errors() {
    let (fixture, folder) = speech_folder("whisper", Dtype::F32);
    let path = folder.path();
    for (file, part, key, value) in [
        ("config.json", "config", "encoder_attention_heads", json!(5)),
        ("config.json", "config", "max_source_positions", json!(51)),
        ("config.json", "config", "num_mel_bins", json!(21)),
        ("preprocessor_config.json", "preprocessor", "chunk_length", json!(2)),
        ("preprocessor_config.json", "preprocessor", "n_fft", json!(1)),
        ("preprocessor_config.json", "preprocessor", "hop_length", json!(0)),
        ("generation_config.json", "generation", "lang_to_id", json!({"<|en|>": "x"})),
        ("generation_config.json", "generation", "task_to_id", json!({})),
        ("generation_config.json", "generation", "suppress_tokens", json!(-1.5)),
    ] {
        let mut changed = fixture[part].clone();
        changed[key] = value;
        write_json(path, file, &changed);
        let error = load_error(path);
        assert!(matches!(error, ModelError::Config { .. }), "{key}: {error}");
        write_json(path, file, &fixture[part]);
    }
    let mut config = fixture["config"].clone();
    config["decoder_ffn_dim"] = json!(64);
    write_json(path, "config.json", &config);
    assert!(matches!(load_error(path), ModelError::Shape { .. }));
    config["architectures"] = json!(["WhisperModel"]);
    write_json(path, "config.json", &config);
    assert!(matches!(load_error(path), ModelError::Architecture { .. }));
    write_json(path, "config.json", &fixture["config"]);

    let mut generation = fixture["generation"].clone();
    generation["lang_to_id"]["<|en|>"] = json!(259);
    write_json(path, "generation_config.json", &generation);
    let error = load_error(path).to_string();
    assert!(error.contains("the tokenizer: `<|en|>` is 258, expected 259"), "{error}");
    write_json(path, "generation_config.json", &fixture["generation"]);
    write_json(path, "tokenizer.json", &byte_tokenizer());
    assert!(matches!(load_error(path), ModelError::Tokenizer(_)));
    write_json(path, "tokenizer.json", &speech_tokenizer());

    let mut kept = tensors(&fixture);
    kept.retain(|(name, _)| name != "model.encoder.conv2.bias");
    write_weights(&path.join("model.safetensors"), &kept, Dtype::F32);
    assert_eq!(load_error(path).to_string(), "the weights lack `model.encoder.conv2.bias` [32]");
}
