//! Folders: shards, types of weights, and files that are missing or contradict the configuration.

use std::{fs, path::Path};

use arrayjit_models::{EmbeddingModel, LanguageModel, ModelError};
use safetensors::Dtype;
use serde_json::json;

use crate::generated::{
    byte_tokenizer, fixture, folder, tensors, write_json, write_torch_weights, write_weights,
};

/// The error of loading a folder, without the file around it.
fn error(folder: &Path) -> ModelError {
    match LanguageModel::load(folder).err().unwrap() {
        ModelError::File { problem, .. } => *problem,
        error => error,
    }
}

#[test]
fn shards_of_several_types_are_one_model() {
    let fixture = fixture("llama");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let whole = LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let (first, second): (Vec<_>, Vec<_>) =
        tensors(&fixture).into_iter().partition(|(_, shape)| shape.len() == 2);
    let files = [("model-1.safetensors", &first, Dtype::BF16), ("model-2.safetensors", &second, Dtype::F16)];
    let mut map = serde_json::Map::new();
    for (file, tensors, dtype) in files {
        write_weights(&folder.path().join(file), tensors, dtype);
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    write_json(folder.path(), "model.safetensors.index.json", &json!({"weight_map": map}));
    assert_eq!(LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap(), whole);
    write_json(
        folder.path(),
        "model.safetensors.index.json",
        &json!({"weight_map": {"x": "../model-1.safetensors"}}),
    );
    assert!(matches!(error(folder.path()), ModelError::Format { .. }));
}

/// A folder without safetensors files has files of torch.
#[test]
fn files_of_torch_are_the_same_model() {
    let fixture = fixture("qwen3");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let expected = LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let missing = error(folder.path()).to_string();
    assert!(
        missing.starts_with("the file of weights is missing, expected `model.safetensors` or"),
        "{missing}"
    );

    let path = folder.path().join("pytorch_model.bin");
    write_torch_weights(&path, &tensors(&fixture), "FloatStorage");
    assert_eq!(LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap(), expected);

    write_torch_weights(&path, &tensors(&fixture), "IntStorage");
    let integers = error(folder.path()).to_string();
    assert_eq!(
        integers,
        "tensor `model.embed_tokens.weight` is stored as i32, expected one of f64, f32, f16, bf16"
    );
    write_weights(&folder.path().join("model.safetensors"), &tensors(&fixture), Dtype::I16);
    assert_eq!(error(folder.path()).to_string(), integers.replace("i32", "i16"));
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(error(folder.path()), ModelError::Array(_)));

    fs::remove_file(&path).unwrap();
    let mut map = serde_json::Map::new();
    for (at, part) in tensors(&fixture).chunks(10).enumerate() {
        let file = format!("pytorch_model-{at}.bin");
        write_torch_weights(&folder.path().join(&file), part, "FloatStorage");
        map.extend(part.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    write_json(folder.path(), "pytorch_model.bin.index.json", &json!({"weight_map": map}));
    assert_eq!(LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap(), expected);
}

#[test]
fn missing_tensors_are_named_with_their_shapes() {
    let fixture = fixture("qwen3");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let mut kept = tensors(&fixture);
    kept.retain(|(name, _)| !name.ends_with("1.self_attn.q_norm.weight") && name != "model.norm.weight");
    write_weights(&folder.path().join("model.safetensors"), &kept, Dtype::F32);
    let error = error(folder.path()).to_string();
    assert_eq!(
        error,
        "the weights lack `model.layers.1.self_attn.q_norm.weight` [12], `model.norm.weight` [32]"
    );
}

#[test]
fn a_file_that_lies_about_sizes_is_an_error() {
    let fixture = fixture("llama");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    assert!(matches!(error(folder.path()), ModelError::Format { .. }));
    fs::write(&path, [&u64::MAX.to_le_bytes()[..], &bytes[8..]].concat()).unwrap();
    assert!(error(folder.path()).to_string().starts_with("the length of the header is 18446744073709551615"));
    fs::write(&path, &bytes[..5]).unwrap();
    assert!(matches!(error(folder.path()), ModelError::Io(_)));
    write_weights(&path, &tensors(&fixture), Dtype::F32);
    let mut config = fixture["config"].clone();
    config["intermediate_size"] = json!(64);
    write_json(folder.path(), "config.json", &config);
    let ModelError::Shape { name, found, expected } = error(folder.path()) else { panic!("another error") };
    assert_eq!(
        (name.as_str(), found, expected),
        ("model.layers.0.mlp.gate_proj.weight", vec![48, 32], vec![64, 32])
    );
}

#[test]
fn an_unknown_architecture_names_those_that_exist() {
    let mut fixture = fixture("llama");
    fixture["config"]["architectures"] = json!(["WhateverForCausalLM"]);
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let found = error(folder.path()).to_string();
    assert!(
        found
            .starts_with("the architecture is `WhateverForCausalLM`, expected one of GPT2LMHeadModel, Llama"),
        "{found}"
    );
    let found = EmbeddingModel::load(folder.path()).err().unwrap().to_string();
    assert!(
        found.ends_with(
            "expected one of BertModel, BertForMaskedLM, RobertaModel, RobertaForMaskedLM, XLMRobertaModel"
        ),
        "{found}"
    );
}

#[test]
fn configurations_that_do_not_fit_name_the_key() {
    let fixture = fixture("llama");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    for (key, value) in [
        ("num_key_value_heads", json!(3)),
        ("hidden_size", json!(0)),
        ("vocab_size", json!("many")),
        ("hidden_act", json!("sine")),
        ("num_hidden_layers", json!(null)),
        ("rope_parameters", json!({"rope_type": "spiral"})),
    ] {
        let mut config = fixture["config"].clone();
        config[key] = value;
        write_json(folder.path(), "config.json", &config);
        let ModelError::Config { key: found, .. } = error(folder.path()) else {
            panic!("another error of {key}")
        };
        assert!(found == key || found == "rope_type", "{found}");
    }
    fs::write(folder.path().join("config.json"), "{").unwrap();
    assert!(matches!(error(folder.path()), ModelError::Json(_)));
}

#[test]
fn options_that_change_results_are_computed_or_rejected() {
    for (name, key, value) in [
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true)),
        ("gemma3", "use_bidirectional_attention", json!(true)),
        ("bert", "is_decoder", json!(true)),
        ("bert", "layer_norm_eps", json!(-1e-12)),
        ("llama", "rms_norm_eps", json!(-1)),
        ("gpt2", "layer_norm_epsilon", json!(-1e-5)),
    ] {
        let mut fixture = fixture(name);
        fixture["config"][key] = value;
        let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
        let error = match name {
            "bert" => EmbeddingModel::load(folder.path()).err(),
            _ => LanguageModel::load(folder.path()).err(),
        };
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(&format!("`{key}` of the configuration is")), "{name}: {text}");
    }
    for (name, key, value) in [
        ("gemma", "hidden_act", "silu"),
        ("gemma2", "hidden_activation", "gelu"),
        ("gemma3", "hidden_activation", "relu"),
    ] {
        let mut fixture = fixture(name);
        let mut logits = || {
            let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
            let found = LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap();
            fixture["config"][key] = json!(value);
            found
        };
        assert_ne!(logits(), logits(), "{name}");
    }
    let mut fixture = fixture("gpt2");
    fixture["config"]["tie_word_embeddings"] = json!(false);
    let size = &fixture["config"]["n_embd"];
    fixture["tensors"]["lm_head.weight"] = json!([fixture["config"]["vocab_size"], size]);
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let found = LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap();
    fixture["config"]["tie_word_embeddings"] = json!(true);
    write_json(folder.path(), "config.json", &fixture["config"]);
    assert_ne!(found, LanguageModel::load(folder.path()).unwrap().logits(&[1, 2, 3]).unwrap());
}
