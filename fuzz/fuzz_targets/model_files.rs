//! Feeds any bytes to the readers of model files: GGUF files, and folders with configurations, tokenizers,
//! chat templates and weights. Accepted models run on the interpreter.
#![no_main]

#[path = "../src/model_files.rs"]
mod model_files;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    model_files::load_and_run(data);
});
