//! Prints the time of a step and the tokens per second of 1, 2, 4, 8 … sequences that run together:
//! `throughput [PATH [MOST [TOKENS]]]`. PATH is a folder of the hub or a GGUF file; without it, random
//! weights are used, in f32: 4 layers as in SmolLM-135M with 8,192 tokens. MOST is the greatest number of
//! sequences, 8 by default, and TOKENS the length of a sequence behind its prompt, 64 by default.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use arrayjit_models::{BatchEvent, ContinuousBatch, GenerateOptions, LoadOptions};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;

const VOCABULARY: usize = 8192;
const SIZE: usize = 576;
const HIDDEN: usize = 1536;
const LAYERS: usize = 4;
const KEYS: usize = 192;

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let folder = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let path = match arguments.next() {
        Some(path) => PathBuf::from(path),
        None => {
            write_model(folder.path())?;
            folder.path().to_owned()
        }
    };
    let most: usize = arguments.next().map_or(Ok(8), |most| most.parse())?;
    let tokens: usize = arguments.next().map_or(Ok(64), |tokens| tokens.parse())?;
    let options = LoadOptions { context: Some(512), ..LoadOptions::default() };
    let start = Instant::now();
    let mut batch = ContinuousBatch::load(&path, most, &options)?;
    println!("loaded in {:.1} s", start.elapsed().as_secs_f64());
    for sequences in
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&count| count <= most)
    {
        let seconds = step_time(&mut batch, sequences, tokens)?;
        let rate = sequences as f64 / seconds;
        println!("{sequences} sequences: {:.2} ms a step, {rate:.1} tokens/s", 1e3 * seconds);
    }
    Ok(())
}

/// The median time in seconds of a step that computes a token of each sequence, whose prompts are read.
fn step_time(batch: &mut ContinuousBatch, sequences: usize, tokens: usize) -> Result<f64, Box<dyn Error>> {
    let options = GenerateOptions { max_tokens: tokens, ..GenerateOptions::default() };
    for sequence in 0..sequences {
        let prompt = (0..100).map(|at| (at * 7 + sequence as u32) % 256).collect();
        batch.submit_tokens(prompt, &options)?;
    }
    let mut times = Vec::new();
    while !batch.is_idle() {
        let start = Instant::now();
        let events = batch.step()?;
        let found = events.iter().filter(|event| matches!(event, BatchEvent::Token { .. })).count();
        // Other steps read prompts, or have fewer sequences.
        if found == sequences {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().ok_or_else(|| "no step had a token of each sequence".into())
}

/// Writes a folder with random weights in f32, and a tokenizer of which only numbers of tokens are used.
fn write_model(folder: &Path) -> Result<(), Box<dyn Error>> {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": SIZE,
        "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 2048, "hidden_act": "silu",
        "tie_word_embeddings": true,
    });
    fs::write(folder.join("config.json"), config.to_string())?;
    let tokens: BTreeMap<String, usize> = (0..256).map(|id| (id.to_string(), id)).collect();
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": tokens, "unk_token": "0"},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string())?;
    let mut tensors = vec![("model.embed_tokens".to_owned(), vec![VOCABULARY, SIZE])];
    tensors.push(("model.norm".to_owned(), vec![SIZE]));
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("input_layernorm", vec![SIZE]),
            ("post_attention_layernorm", vec![SIZE]),
            ("self_attn.q_proj", vec![SIZE, SIZE]),
            ("self_attn.k_proj", vec![KEYS, SIZE]),
            ("self_attn.v_proj", vec![KEYS, SIZE]),
            ("self_attn.o_proj", vec![SIZE, SIZE]),
            ("mlp.gate_proj", vec![HIDDEN, SIZE]),
            ("mlp.up_proj", vec![HIDDEN, SIZE]),
            ("mlp.down_proj", vec![SIZE, HIDDEN]),
        ] {
            tensors.push((format!("model.layers.{layer}.{name}"), shape));
        }
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = |shape: &Vec<usize>| -> Vec<u8> {
        let count = shape.iter().product();
        let value = || ((random.f32() - 0.5) / 8.0).to_le_bytes();
        std::iter::repeat_with(value).take(count).flatten().collect()
    };
    let data: Vec<Vec<u8>> = tensors.iter().map(|(_, shape)| bytes(shape)).collect();
    let mut views = BTreeMap::new();
    for ((name, shape), data) in tensors.iter().zip(&data) {
        views.insert(format!("{name}.weight"), TensorView::new(Dtype::F32, shape.clone(), data)?);
    }
    fs::write(folder.join("model.safetensors"), safetensors::serialize(views, None)?)?;
    Ok(())
}
