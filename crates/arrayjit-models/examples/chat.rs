//! Talks with a model: `chat PATH` reads what you say from the keyboard, line by line, and `chat PATH TEXT`
//! answers one text. PATH is a folder of the hub or a GGUF file.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{
    error::Error,
    io::{self, BufRead, Write},
    time::Instant,
};

use arrayjit_models::{GenerateOptions, LanguageModel, Message};

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, text @ ..] = &arguments[..] else {
        return Err("usage: chat FOLDER-OR-GGUF-FILE [TEXT]".into());
    };
    let mut model = LanguageModel::load(path)?;
    let mut dialogue = Vec::new();
    if !text.is_empty() {
        return answer(&mut model, &mut dialogue, text.join(" "));
    }
    let mut lines = io::stdin().lock().lines();
    loop {
        print!("> ");
        io::stdout().flush()?;
        let Some(line) = lines.next() else { return Ok(()) };
        let start = Instant::now();
        answer(&mut model, &mut dialogue, line?)?;
        println!("[{:.1} s]", start.elapsed().as_secs_f64());
    }
}

/// Prints the answer to a text, and adds both to the dialogue. The model computes only what is new in it.
fn answer(
    model: &mut LanguageModel,
    dialogue: &mut Vec<Message>,
    text: String,
) -> Result<(), Box<dyn Error>> {
    dialogue.push(Message::user(text));
    let options = GenerateOptions { temperature: 0.7, top_p: 0.9, ..GenerateOptions::default() };
    let mut answer = String::new();
    for token in model.chat(&*dialogue, &options)? {
        let text = token?.text;
        print!("{text}");
        io::stdout().flush()?;
        answer += &text;
    }
    println!();
    dialogue.push(Message::assistant(answer));
    Ok(())
}
