//! Prompts and options that are out of range.

use arrayjit_models::{GenerateOptions, LanguageModel, LoadOptions, ModelError};
use safetensors::Dtype;

use crate::generated::{byte_tokenizer, fixture, folder};

#[test]
fn prompts_and_options_out_of_range_are_errors() {
    let folder = folder(&fixture("gpt2"), Dtype::F32, &byte_tokenizer());
    let mut model = LanguageModel::load(folder.path()).unwrap();
    assert_eq!(model.context(), 160);
    let mut error = |prompt: &str, options: GenerateOptions| model.generate(prompt, &options).err().unwrap();
    let plain = GenerateOptions::default;
    assert!(matches!(error("", plain()), ModelError::EmptyPrompt));
    let long = error(&"x".repeat(161), plain());
    assert!(matches!(long, ModelError::PromptLength { tokens: 161, context: 160 }));
    for (name, options) in [
        ("temperature", GenerateOptions { temperature: f32::NAN, ..plain() }),
        ("top_p", GenerateOptions { top_p: 0.0, ..plain() }),
        ("min_p", GenerateOptions { min_p: 1.5, ..plain() }),
        ("min_p", GenerateOptions { min_p: f32::NAN, ..plain() }),
        ("repetition_penalty", GenerateOptions { repetition_penalty: -1.0, ..plain() }),
        ("stop", GenerateOptions { stop: vec![String::new()], ..plain() }),
    ] {
        let ModelError::Option { option, .. } = error("x", options) else {
            panic!("another error of {name}")
        };
        assert_eq!(option, name);
    }
    assert!(matches!(model.logits(&[256]), Err(ModelError::Token { token: 256, vocabulary: 256 })));
    let options = LoadOptions { context: Some(161), ..LoadOptions::default() };
    assert!(LanguageModel::load_with(folder.path(), &options).is_err());
}
