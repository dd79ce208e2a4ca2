//! Prints the tokens per second of 32 texts that are embedded together: `embed_throughput FOLDER [ROUNDS]`.
//! `peers.py` beside it does the same by other programs.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{error::Error, time::Instant};

use arrayjit_models::EmbeddingModel;

const TEXTS: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: embed_throughput FOLDER [ROUNDS]")?;
    let rounds: usize = arguments.next().map_or(Ok(20), |rounds| rounds.parse())?;
    let sentence = "A person with a folder from the hub embeds some sentences by eight lines of code. ";
    let texts: Vec<String> = (0..TEXTS).map(|at| sentence.repeat(1 + at % 4)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let model = EmbeddingModel::load(&folder)?;
    let mut tokens = 0;
    for text in &texts {
        tokens += model.tokens(text)?.len();
    }
    model.embed(&texts)?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        model.embed(&texts)?;
        rates.push(tokens as f64 / start.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!("{tokens} tokens: {:.0} tokens/s", rates[rates.len() / 2]);
    Ok(())
}
