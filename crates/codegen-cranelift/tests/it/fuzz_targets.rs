//! The fuzz targets without a fuzzer: on every seed, on mutations of the seeds, and on fixed random bytes.

use std::fs;
use std::path::{Path, PathBuf};

use filetests::generate::{Choices, bytes_of_seed};

#[allow(unreachable_pub, reason = "the fuzz crate exports it")]
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

/// The files in `fuzz/seeds`: routines as `.lir`, and programs in assignment text as `.assign`.
fn seed_paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(folder).expect("the seeds").flatten().map(|e| e.path()).collect();
    paths.sort();
    let has = |end: &str| paths.iter().any(|path| path.extension().is_some_and(|found| found == end));
    assert!(has("lir") && has("assign"));
    paths
}

fn seeds() -> Vec<Vec<u8>> {
    seed_paths().iter().map(|path| fs::read(path).expect("a readable file")).collect()
}

/// The text with a few bytes duplicated elsewhere, removed, or replaced by bytes that such texts contain.
fn mutated(text: &[u8], seed: u64) -> Vec<u8> {
    let bytes = bytes_of_seed(seed, 32);
    let mut choices = Choices::new(&bytes);
    let mut text = text.to_vec();
    for _ in 0..1 + choices.below(3) {
        let mut at = || (choices.below(256) * 256 + choices.below(256)) % text.len().max(1);
        let (to, from) = (at(), at());
        match choices.below(3) {
            0 if !text.is_empty() => drop(text.remove(to)),
            1 if !text.is_empty() => text[to] = *choices.pick(b"0123456789-%il[]{}(),:=@\"f"),
            _ => {
                let end = (from + choices.below(12)).min(text.len());
                let copy = text[from.min(end)..end].to_vec();
                text.splice(to..to, copy);
            }
        }
    }
    text
}

fn on_texts(target: fn(&[u8]), mutations: u64) {
    for (at, seed) in (0..).zip(seeds()) {
        target(&seed);
        (0..mutations).for_each(|i| target(&mutated(&seed, at * mutations + i)));
    }
}

fn on_bytes(target: fn(&[u8]), count: u64) {
    (0..count).for_each(|seed| target(&bytes_of_seed(seed ^ 0xf022, 40 + seed as usize % 360)));
}

#[test]
fn parse() {
    on_texts(targets::parse, 50);
    on_bytes(targets::parse, 100);
}

#[test]
fn assignments() {
    on_texts(targets::assignments, 10);
    on_bytes(targets::assignments, 200);
}

#[test]
fn seeds_of_assignments_are_programs_with_gradients() {
    for path in seed_paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "assign")) {
        let source = fs::read_to_string(&path).expect("a readable file");
        assert!(source.contains("\ngrad ") && targets::accepts(&source), "{}", path.display());
    }
}

#[test]
fn verified() {
    on_texts(targets::verified, 6);
}

#[test]
fn optimized() {
    on_bytes(targets::optimized, 40);
}

#[test]
fn compiled() {
    on_bytes(targets::compiled, 60);
}
