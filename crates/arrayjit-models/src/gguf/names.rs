//! Configuration and tensors of a GGUF file under the names of the hub's folders.

use serde_json::{Map, Value, json};

use crate::{
    config::Config,
    error::{ModelError, Result},
    weights::Weights,
};

/// The architectures by their names in GGUF files.
const ARCHITECTURES: &[&str] = &["gpt2", "llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];

/// Keys of the configuration, and those of the metadata behind the name of the architecture.
const KEYS: [(&str, &str); 14] = [
    ("max_position_embeddings", "context_length"),
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("query_pre_attn_scalar", "attention.key_length"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("rope_theta", "rope.freq_base"),
    ("rope_local_base_freq", "rope.freq_base_swa"),
    ("sliding_window", "attention.sliding_window"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
];

const GPT2_KEYS: [(&str, &str); 6] = [
    ("n_positions", "context_length"),
    ("n_embd", "embedding_length"),
    ("n_layer", "block_count"),
    ("n_inner", "feed_forward_length"),
    ("n_head", "attention.head_count"),
    ("layer_norm_epsilon", "attention.layer_norm_epsilon"),
];

/// Parts of a layer by their names in a file, for Llama and its relatives.
const LAYER_PARTS: [(&str, &str); 13] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

const GPT2_LAYER_PARTS: [(&str, &str); 6] = [
    ("attn_norm", "ln_1"),
    ("attn_qkv", "attn.c_attn"),
    ("attn_output", "attn.c_proj"),
    ("ffn_norm", "ln_2"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
];

/// The configuration and the tensors of a file.
pub(super) fn translated(metadata: &Config, mut weights: Weights) -> Result<(Config, Weights)> {
    let found = metadata.text("general.architecture")?.unwrap_or_default().to_owned();
    let Some(architecture) = ARCHITECTURES.iter().copied().find(|known| *known == found) else {
        return Err(ModelError::Architecture { found, known: ARCHITECTURES });
    };
    let config = configuration(metadata, &mut weights, architecture)?;
    if architecture != "gpt2" {
        let size = match config.size("head_dim")? {
            Some(size) => size,
            None => config.needed_size("hidden_size")? / config.needed_size("num_attention_heads")?,
        };
        let key = format!("{architecture}.rope.dimension_count");
        if metadata.size(&key)?.is_some_and(|rotated| rotated != size) {
            return Err(metadata.misfit(&key, format!("{size}, the size of a head")));
        }
        if architecture == "llama" {
            weights.split_pairs(size, |name| name.contains(".attn_q.") || name.contains(".attn_k."));
        }
    }
    Ok((config, weights.renamed(|name| tensor_name(name, architecture))))
}

fn configuration(metadata: &Config, weights: &mut Weights, architecture: &str) -> Result<Config> {
    let mut config = Config::default();
    let is_gpt2 = architecture == "gpt2";
    let keys: &[(&str, &str)] = if is_gpt2 { &GPT2_KEYS } else { &KEYS };
    let value = |key: &str| metadata.get(&format!("{architecture}.{key}")).cloned();
    metadata.only(&format!("{architecture}.attention.causal"), true)?;
    for (key, of_file) in keys {
        config.0.extend(value(of_file).map(|value| ((*key).to_owned(), value)));
    }
    let mut set = |key: &str, value: Value| config.0.insert(key.to_owned(), value);
    let name = match architecture {
        "gpt2" => "GPT2LMHeadModel".to_owned(),
        "llama" => "LlamaForCausalLM".to_owned(),
        _ => architecture[..1].to_uppercase() + &architecture[1..] + "ForCausalLM",
    };
    set("architectures", json!([name]));
    if let Some([rows, _]) = weights.shape("token_embd.weight") {
        set("vocab_size", json!(rows));
    }
    set("tie_word_embeddings", json!(weights.shape("output.weight").is_none()));
    if is_gpt2 {
        set("activation_function", json!("gelu_new"));
        set("is_transposed", json!(true));
        return Ok(config);
    }
    let is_gemma = architecture.starts_with("gemma");
    set("hidden_act", json!(if is_gemma { "gelu_pytorch_tanh" } else { "silu" }));
    set("norm_offset_stored", json!(true));
    let has_bias = |part: &str| json!(weights.shape(&format!("blk.0.{part}.bias")).is_some());
    set("attention_bias", has_bias("attn_output"));
    set("mlp_bias", has_bias("ffn_up"));
    set("rope_scaling", Value::Object(rope_scaling(&value, weights)?));
    Ok(config)
}

/// The change of the angles of rotary positions. As in llama.cpp, a factor without a type is linear.
fn rope_scaling(value: &dyn Fn(&str) -> Option<Value>, weights: &mut Weights) -> Result<Map<String, Value>> {
    let kind = value("rope.scaling.type").unwrap_or_else(|| json!("linear"));
    let factor = value("rope.scaling.factor").or_else(|| value("rope.scale_linear"));
    let entries = [
        ("rope_type", Some(if kind == "none" || factor.is_none() { json!("default") } else { kind })),
        ("factor", factor),
        (
            "original_max_position_embeddings",
            value("rope.scaling.original_context_length").or_else(|| value("context_length")),
        ),
        ("amplitude", value("rope.scaling.attn_factor")),
        ("divisors", weights.take("rope_freqs.weight")?.map(|divisors| json!(divisors.values()))),
    ];
    Ok(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

fn tensor_name(name: &str, architecture: &str) -> String {
    let is_gpt2 = architecture == "gpt2";
    let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
    let whole = match (stem, is_gpt2) {
        ("token_embd", false) => Some("model.embed_tokens"),
        ("output_norm", false) => Some("model.norm"),
        ("output", _) => Some("lm_head"),
        ("token_embd", true) => Some("transformer.wte"),
        ("position_embd", true) => Some("transformer.wpe"),
        ("output_norm", true) => Some("transformer.ln_f"),
        _ => None,
    };
    if let Some(whole) = whole {
        return format!("{whole}.{kind}");
    }
    let Some((number, part)) = stem.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        return name.to_owned();
    };
    let parts: &[(&str, &str)] = if is_gpt2 { &GPT2_LAYER_PARTS } else { &LAYER_PARTS };
    let known = parts.iter().find(|(of_file, _)| *of_file == part).map(|(_, known)| *known);
    let part = match (part, architecture) {
        ("ffn_norm", "gemma2" | "gemma3") => "pre_feedforward_layernorm",
        _ => known.unwrap_or(part),
    };
    let layers = if is_gpt2 { "transformer.h" } else { "model.layers" };
    format!("{layers}.{number}.{part}.{kind}")
}
