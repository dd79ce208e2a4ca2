//! Continues prompts from the keyboard: `chat PATH`, where PATH is a folder of the hub or a GGUF file. Each
//! line is a prompt, behind the text so far.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{
    error::Error,
    io::{self, BufRead, Write},
    time::Instant,
};

use arrayjit_models::{GenerateOptions, LanguageModel};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: chat FOLDER-OR-GGUF-FILE")?;
    let mut model = LanguageModel::load(path)?;
    let options = GenerateOptions {
        temperature: 0.7,
        top_p: 0.9,
        repetition_penalty: 1.1,
        stop: vec!["\nUser:".to_owned()],
        ..GenerateOptions::default()
    };
    let mut text = String::new();
    for line in io::stdin().lock().lines() {
        text += &format!("User: {}\nAssistant:", line?);
        let (start, mut tokens) = (Instant::now(), 0);
        for token in model.generate(&text.clone(), &options)? {
            let token = token?;
            print!("{}", token.text);
            io::stdout().flush()?;
            text += &token.text;
            tokens += 1;
        }
        text += "\n";
        println!("\n[{:.1} tokens/s]", f64::from(tokens) / start.elapsed().as_secs_f64());
    }
    Ok(())
}
