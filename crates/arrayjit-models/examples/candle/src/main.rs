//! What `peers.py` prints, by candle: `candle-run embed FOLDER THREADS` and
//! `candle-run decode FILE.gguf THREADS`.

use std::{error::Error, fs, time::Instant};

use candle_core::{quantized::gguf_file, DType, Device, Tensor, D};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    bert::{BertModel, Config},
    quantized_llama::ModelWeights,
};
use tokenizers::{PaddingParams, Tokenizer};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const TEXTS: usize = 32;
const ROUNDS: usize = 20;
const PROMPT: u32 = 100;
const TOKENS: u32 = 64;
const SENTENCE: &str = "A person with a folder from the hub embeds some sentences by eight lines of code. ";

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [job, path, threads] = arguments.as_slice() else {
        return Err("usage: candle-run embed FOLDER THREADS | decode FILE.gguf THREADS".into());
    };
    // candle reads it when it first uses its pool of threads.
    std::env::set_var("RAYON_NUM_THREADS", threads);
    match job.as_str() {
        "embed" => embed(path, threads),
        "decode" => decode(path, threads),
        _ => Err("the first argument is embed or decode".into()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn embed(folder: &str, threads: &str) -> Outcome {
    let device = Device::Cpu;
    let config: Config = serde_json::from_slice(&fs::read(format!("{folder}/config.json"))?)?;
    let weights = candle_core::safetensors::load(format!("{folder}/model.safetensors"), &device)?;
    let model = BertModel::load(VarBuilder::from_tensors(weights, DType::F32, &device), &config)?;
    let mut tokenizer = Tokenizer::from_file(format!("{folder}/tokenizer.json"))?;
    tokenizer.with_padding(Some(PaddingParams::default())).with_truncation(None)?;
    let texts: Vec<String> = (0..TEXTS).map(|at| SENTENCE.repeat(1 + at % 4)).collect();
    let mut tokens = 0;
    let mut run = || -> Outcome {
        let encodings = tokenizer.encode_batch(texts.clone(), true)?;
        let length = encodings[0].len();
        let ids: Vec<u32> = encodings.iter().flat_map(|text| text.get_ids().to_vec()).collect();
        let mask: Vec<u32> = encodings.iter().flat_map(|text| text.get_attention_mask().to_vec()).collect();
        tokens = mask.iter().sum::<u32>();
        let ids = Tensor::from_vec(ids, (TEXTS, length), &device)?;
        let mask = Tensor::from_vec(mask, (TEXTS, length), &device)?;
        let states = model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
        let sums = states.broadcast_mul(&mask)?.sum(1)?.broadcast_div(&mask.sum(1)?)?;
        sums.broadcast_div(&sums.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?)?.to_vec2::<f32>()?;
        Ok(())
    };
    run()?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64());
    }
    let rate = f64::from(tokens) / median(times);
    println!("candle, {threads} threads, {tokens} tokens: {rate:.0} tokens/s");
    Ok(())
}

fn decode(path: &str, threads: &str) -> Outcome {
    let device = Device::Cpu;
    let start = Instant::now();
    let mut file = fs::File::open(path)?;
    let content = gguf_file::Content::read(&mut file)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, &device)?;
    let loaded = start.elapsed().as_secs_f64();
    let prompt: Vec<u32> = (0..PROMPT).map(|at| at * 7 % 256).collect();
    model.forward(&Tensor::new(prompt.as_slice(), &device)?.unsqueeze(0)?, 0)?.to_vec2::<f32>()?;
    let mut times = Vec::new();
    for at in 0..TOKENS {
        let start = Instant::now();
        let token = Tensor::new(&[at], &device)?.unsqueeze(0)?;
        model.forward(&token, (PROMPT + at) as usize)?.to_vec2::<f32>()?;
        times.push(1e3 * start.elapsed().as_secs_f64());
    }
    println!("candle, {threads} threads: {:.2} ms a token, loaded in {loaded:.1} s", median(times));
    Ok(())
}
