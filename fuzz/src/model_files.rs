//! The check of the fuzz target `model_files`, which the tests of `arrayjit-models` run on seeds too.

use std::{fs, path::Path};

use arrayjit_models::{
    Backend, EmbeddingModel, LanguageModel, LoadOptions, Message, SpeechModel, TranscribeOptions,
};

/// The files of a folder before the weights, each up to a byte 255, which no text in UTF-8 has.
const TEXTS: [&str; 3] = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/// [`TEXTS`] of a folder of a speech model.
const SPEECH_TEXTS: [&str; 4] =
    ["config.json", "tokenizer.json", "generation_config.json", "preprocessor_config.json"];

/// Any bytes are the files of a model that loads and runs, or an error. The first byte chooses: a GGUF file,
/// or a folder of a language, an embedding or a speech model. Returns whether it loads.
pub fn load_and_run(data: &[u8]) -> bool {
    let Some((&kind, data)) = data.split_first() else { return false };
    let folder = tempfile::tempdir().expect("a folder for the files");
    let backend = Backend::open("interpreter").expect("the interpreter opens");
    match kind % 4 {
        0 => {
            let path = folder.path().join("model.gguf");
            fs::write(&path, data).expect("a file");
            run_language_model(&path, backend)
        }
        1 => {
            write_folder(folder.path(), &TEXTS, data);
            run_language_model(folder.path(), backend)
        }
        2 => {
            write_folder(folder.path(), &TEXTS, data);
            let Ok(model) = EmbeddingModel::load_on(&backend, folder.path()) else { return false };
            // An error is a rejection, here and below.
            let _ = model.embed(&["a b", "c"]);
            true
        }
        _ => {
            write_folder(folder.path(), &SPEECH_TEXTS, data);
            run_speech_model(folder.path(), backend)
        }
    }
}

fn write_folder(folder: &Path, texts: &[&str], data: &[u8]) {
    let mut rest = data;
    for name in texts {
        let length = rest.iter().position(|&byte| byte == 255).unwrap_or(rest.len());
        fs::write(folder.join(name), &rest[..length]).expect("a file");
        rest = rest.get(length + 1..).unwrap_or_default();
    }
    fs::write(folder.join("model.safetensors"), rest).expect("a file");
}

fn run_language_model(path: &Path, backend: Backend) -> bool {
    let options = LoadOptions { backend: Some(backend), context: Some(4), ..LoadOptions::default() };
    let Ok(mut model) = LanguageModel::load_with(path, &options) else { return false };
    let _ = model.chat_text(&[Message::user("a"), Message::assistant("b")]);
    if let Ok(tokens) = model.tokens("a b") {
        let _ = model.logits(&tokens);
    }
    true
}

fn run_speech_model(folder: &Path, backend: Backend) -> bool {
    let options = LoadOptions { backend: Some(backend), context: Some(8), ..LoadOptions::default() };
    let Ok(mut model) = SpeechModel::load_with(folder, &options) else { return false };
    let sample_rate = model.sample_rate();
    for timestamps in [false, true] {
        let options =
            TranscribeOptions { sample_rate, timestamps, max_tokens: 3, ..TranscribeOptions::default() };
        let _ = model.transcribe(&[0.5; 8], &options);
    }
    true
}
