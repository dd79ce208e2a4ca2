//! Feeds any bytes to the loader of ONNX models, and runs the accepted models on the interpreter.
#![no_main]

#[path = "../src/onnx_model.rs"]
mod onnx_model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| onnx_model::load_and_run(data));
