//! Prints the similarity of texts to the first one: `embed FOLDER TEXT TEXT…`.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::error::Error;

use arrayjit_models::EmbeddingModel;

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, texts @ ..] = &arguments[..] else { return Err("usage: embed FOLDER TEXT TEXT…".into()) };
    let model = EmbeddingModel::load(folder)?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = model.embed(&texts)?;
    for (text, vector) in texts.iter().zip(&vectors) {
        let similarity: f32 = vector.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
        println!("{similarity:.6} {text}");
    }
    Ok(())
}
