//! The fuzz target `model_files` without a fuzzer: on seeds, and on mutations of them.

use std::{env, fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    generated::{generated, safetensors},
    gguf::Writer,
};
use ::safetensors::Dtype;

#[allow(unreachable_pub, clippy::expect_used, reason = "the fuzz crate has it as a module of its own")]
#[path = "../../../../fuzz/src/model_files.rs"]
mod target;

/// Mutations of each seed.
const MUTATIONS: u64 = 30;

const SIZE: usize = 8;
const VOCABULARY: usize = 6;
const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] + m.content.strip() }}{% endfor %}";

/// The matrices and vectors of a Llama of one layer, with the name of each in a folder and in a GGUF file.
const LLAMA: [(&str, &str, &[usize]); 11] = [
    ("model.embed_tokens.weight", "token_embd.weight", &[VOCABULARY, SIZE]),
    ("model.norm.weight", "output_norm.weight", &[SIZE]),
    ("model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", &[SIZE]),
    ("model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", &[SIZE]),
    ("model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", &[SIZE, SIZE]),
    ("model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", &[SIZE, SIZE]),
    ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", &[SIZE, SIZE]),
    ("model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", &[SIZE, SIZE]),
    ("model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", &[SIZE, SIZE]),
    ("model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", &[SIZE, SIZE]),
    ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", &[SIZE, SIZE]),
];

/// A GGUF file of a Llama with a chat template.
fn gguf_seed() -> Vec<u8> {
    let mut file = Writer::default();
    file.string("general.architecture", "llama");
    file.sizes(SIZE as u32, SIZE as u32);
    file.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
    file.string("tokenizer.ggml.model", "gpt2");
    file.strings("tokenizer.ggml.tokens", &["a", "b", "u", "Ġ", "ab", "<s>"].map(str::to_owned));
    file.strings("tokenizer.ggml.merges", &["a b".to_owned()]);
    file.number("tokenizer.ggml.eos_token_id", 5);
    file.string("tokenizer.chat_template", TEMPLATE);
    for (name, in_gguf, shape) in LLAMA {
        let values = generated(name, shape).into_iter();
        let bytes: Vec<u8> = values.flat_map(|value| half::f16::from_f32(value).to_le_bytes()).collect();
        file.tensor(in_gguf, shape, 1, &bytes);
    }
    [vec![0], file.finish()].concat()
}

/// A folder as the target reads it.
fn folder_seed(kind: u8, texts: &[Value], tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for text in texts {
        bytes.extend(text.to_string().bytes().chain([255]));
    }
    bytes.extend(safetensors(tensors, Dtype::F16));
    bytes
}

fn tokenizer() -> Value {
    let vocabulary = json!({"a": 0, "b": 1, "u": 2, "c": 3, "[": 4, "]": 5});
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "u"},
    })
}

fn llama_seed() -> Vec<u8> {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": SIZE,
        "intermediate_size": SIZE, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 8, "hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": 5,
    });
    let tensors = LLAMA.map(|(name, _, shape)| (name.to_owned(), shape.to_vec()));
    let template = json!({"eos_token": {"content": "]"}, "chat_template": TEMPLATE});
    folder_seed(1, &[config, tokenizer(), template], &tensors)
}

fn bert_seed() -> Vec<u8> {
    let config = json!({
        "architectures": ["BertModel"], "vocab_size": VOCABULARY, "hidden_size": SIZE, "hidden_act": "gelu",
        "intermediate_size": SIZE, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 8, "type_vocab_size": 1,
    });
    let mut tensors = vec![];
    let mut add = |name: &str, shape: &[usize]| tensors.push((name.to_owned(), shape.to_vec()));
    for (table, rows) in [("word", VOCABULARY), ("position", 8), ("token_type", 1)] {
        add(&format!("embeddings.{table}_embeddings.weight"), &[rows, SIZE]);
    }
    for norm in ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"] {
        add(&format!("{norm}.LayerNorm.weight"), &[SIZE]);
        add(&format!("{norm}.LayerNorm.bias"), &[SIZE]);
    }
    for dense in [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ] {
        add(&format!("encoder.layer.0.{dense}.weight"), &[SIZE, SIZE]);
        add(&format!("encoder.layer.0.{dense}.bias"), &[SIZE]);
    }
    folder_seed(2, &[config, tokenizer(), json!({})], &tensors)
}

/// A Whisper of windows of 16 samples.
fn whisper_seed() -> Vec<u8> {
    const POSITIONS: usize = 4;
    let config = json!({
        "architectures": ["WhisperForConditionalGeneration"], "vocab_size": SIZE, "num_mel_bins": 2,
        "d_model": SIZE, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": SIZE, "decoder_ffn_dim": SIZE,
        "max_source_positions": POSITIONS, "max_target_positions": 8, "activation_function": "gelu",
    });
    let marks = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>", "<|0.02|>"];
    let added = marks.iter().zip(3..).map(|(mark, id)| {
        json!({"id": id, "content": mark, "special": true, "normalized": false, "single_word": false,
            "lstrip": false, "rstrip": false})
    });
    let mut tokenizer = tokenizer();
    tokenizer["added_tokens"] = added.collect();
    tokenizer["model"]["vocab"] = json!({"a": 0, "b": 1, "u": 2});
    let generation = json!({
        "decoder_start_token_id": 4, "eos_token_id": 3, "no_timestamps_token_id": 5, "suppress_tokens": [2],
        "max_initial_timestamp_index": 1,
    });
    let preprocessor =
        json!({"sampling_rate": 16, "chunk_length": 1, "n_fft": 4, "hop_length": 2, "feature_size": 2});
    let mut tensors = vec![];
    let mut add = |name: String, shape: &[usize]| tensors.push((format!("model.{name}"), shape.to_vec()));
    let mut with_bias = |name: String, shape: &[usize]| {
        add(format!("{name}.weight"), shape);
        add(format!("{name}.bias"), &[SIZE]);
    };
    with_bias("encoder.conv1".into(), &[SIZE, 2, 3]);
    with_bias("encoder.conv2".into(), &[SIZE, SIZE, 3]);
    for (stack, attentions) in
        [("encoder", ["self_attn"].as_slice()), ("decoder", &["self_attn", "encoder_attn"])]
    {
        let layer = format!("{stack}.layers.0");
        for attention in attentions {
            for part in ["q", "v", "out"] {
                with_bias(format!("{layer}.{attention}.{part}_proj"), &[SIZE, SIZE]);
            }
            with_bias(format!("{layer}.{attention}_layer_norm"), &[SIZE]);
        }
        for matrix in ["fc1", "fc2"] {
            with_bias(format!("{layer}.{matrix}"), &[SIZE, SIZE]);
        }
        with_bias(format!("{layer}.final_layer_norm"), &[SIZE]);
        with_bias(format!("{stack}.layer_norm"), &[SIZE]);
    }
    for attention in ["encoder.layers.0.self", "decoder.layers.0.self", "decoder.layers.0.encoder"] {
        add(format!("{attention}_attn.k_proj.weight"), &[SIZE, SIZE]);
    }
    add("encoder.embed_positions.weight".into(), &[POSITIONS, SIZE]);
    add("decoder.embed_positions.weight".into(), &[8, SIZE]);
    add("decoder.embed_tokens.weight".into(), &[SIZE, SIZE]);
    folder_seed(3, &[config, tokenizer, generation, preprocessor], &tensors)
}

/// Returns the path of a seed.
fn seed_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/model-seeds").join(name)
}

fn seeds() -> [(&'static str, Vec<u8>); 4] {
    [("gguf", gguf_seed()), ("llama", llama_seed()), ("bert", bert_seed()), ("whisper", whisper_seed())]
}

/// `BLESS=1` writes the seeds.
#[test]
fn seeds_are_models_that_run() {
    for (name, seed) in seeds() {
        if env::var("BLESS").is_ok() {
            fs::write(seed_path(name), &seed).unwrap();
        }
        assert_eq!(fs::read(seed_path(name)).unwrap(), seed, "BLESS=1 writes the seeds");
        assert!(target::load_and_run(&seed), "{name} does not load");
    }
}

#[test]
fn mutated_files_are_errors_or_run() {
    for (number, (_, seed)) in seeds().iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(number as u64);
        for _ in 0..MUTATIONS {
            let mut bytes = seed.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..5) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] ^= 1 << random.u8(0..8),
                    2 if bytes.len() > 1 => drop(bytes.remove(at)),
                    3 => bytes[at] = b'9',
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            target::load_and_run(&bytes);
        }
    }
}
