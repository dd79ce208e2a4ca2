//! The memory of packed weights, in a process of its own.
#![cfg(target_os = "linux")]

use std::{env, fs, process::Command};

use arrayjit_models::{LanguageModel, LoadOptions, WeightStorage};

use crate::gguf::{Writer, written};

/// The variable by which the process of a measurement finds the file.
const FILE: &str = "MODELS_TEST_FILE";
/// The variable that says how it keeps weights.
const STORAGE: &str = "MODELS_TEST_STORAGE";

const SIZE: usize = 1024;
const HIDDEN: usize = 8192;
/// The weights of the projections of the layer.
const WEIGHTS: usize = 4 * SIZE * SIZE + 3 * SIZE * HIDDEN;

/// A file with a layer whose projections are in Q4_0.
fn file() -> Vec<u8> {
    let mut file = Writer::default();
    file.llama(SIZE as u32, HIDDEN as u32);
    for (name, outputs, inputs) in [
        ("token_embd", 256, SIZE),
        ("blk.0.attn_q", SIZE, SIZE),
        ("blk.0.attn_k", SIZE, SIZE),
        ("blk.0.attn_v", SIZE, SIZE),
        ("blk.0.attn_output", SIZE, SIZE),
        ("blk.0.ffn_gate", HIDDEN, SIZE),
        ("blk.0.ffn_up", HIDDEN, SIZE),
        ("blk.0.ffn_down", SIZE, HIDDEN),
    ] {
        let blocks = vec![0x11; outputs * inputs / 32 * 18];
        file.tensor(&format!("{name}.weight"), &[outputs, inputs], 2, &blocks);
    }
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        file.tensor(&format!("{name}.weight"), &[SIZE], 0, &[0; 4 * SIZE]);
    }
    file.finish()
}

/// The most resident bytes of this process so far.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

/// The peak of a process that loads the file and computes logits.
fn peak_with(path: &str, storage: &str) -> usize {
    let test = "memory::weights_take_the_memory_that_they_take_in_the_file";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs([(FILE, path), (STORAGE, storage)])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    let peak = output.split("peak: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    peak.parse().unwrap()
}

#[test]
fn weights_take_the_memory_that_they_take_in_the_file() {
    if let (Ok(path), Ok(storage)) = (env::var(FILE), env::var(STORAGE)) {
        let weights = if storage == "f32" { WeightStorage::F32 } else { WeightStorage::Stored };
        let options = LoadOptions { weights, ..LoadOptions::default() };
        let mut model = LanguageModel::load_with(path, &options).unwrap();
        model.logits(&[1, 2, 3]).unwrap();
        model.logits(&[1, 2, 3, 4]).unwrap();
        println!("peak: {} bytes", peak_bytes());
        return;
    }
    let (_folder, path) = written(&file());
    let path = path.to_str().unwrap();
    let (packed, floats) = (peak_with(path, "stored"), peak_with(path, "f32"));
    // A weight takes 4.5 bits in the file, and 32 in f32. The peaks of two processes vary by some per cent.
    let saved = WEIGHTS * 4 - WEIGHTS / 32 * 18;
    assert!(packed + saved * 9 / 10 < floats, "{packed} bytes packed, {floats} in f32, {saved} to save");
}
