//! The fuzz target `onnx_model` without a fuzzer: on seeds, and on mutations of them.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use std::{fs, path::Path};

#[allow(unreachable_pub, clippy::expect_used, reason = "the fuzz crate has it as a module of its own")]
#[path = "../../../../fuzz/src/onnx_model.rs"]
mod target;

/// Mutations of each seed.
const MUTATIONS: u64 = 200;

/// The models in `fuzz/onnx-seeds`.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/onnx-seeds");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_are_models_that_run() {
    let seeds = seeds();
    assert!(seeds.len() >= 8);
    for seed in &seeds {
        arrayjit_onnx::Model::from_bytes(seed.clone()).unwrap();
        target::load_and_run(seed);
    }
}

#[test]
fn mutated_models_are_errors_or_run() {
    for (number, seed) in seeds().iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(number as u64);
        for _ in 0..MUTATIONS {
            let mut bytes = seed.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..4) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] ^= 1 << random.u8(0..8),
                    2 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            target::load_and_run(&bytes);
        }
    }
}
