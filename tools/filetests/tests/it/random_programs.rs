//! Random programs in assignment text are always accepted and verified, and the optimizer preserves their
//! bits.

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use filetests::check_passes;
use filetests::generate::{GeneratedProgram, program_from_bytes, program_from_seed};
use proptest::prelude::*;
use tnode::{DType, MemoryMode, TensorNode};

fn check(program: &GeneratedProgram, seed: u64) -> Result<(), String> {
    let blame = |what: String| format!("{what}\n{}", program.text);
    let assignments = parse(&program.text, &program.nodes).map_err(|e| blame(e.to_string()))?;
    let lowered = lower(&assignments, &LowerOptions::default()).map_err(|e| blame(e.to_string()))?.lowered;
    match check_passes(lowered.routine, seed).map_err(blame)? {
        true => Ok(()),
        false => Err(blame("rejected by the optimizer".to_owned())),
    }
}

#[test]
fn seeds() {
    for seed in filetests::effort::seeds(60) {
        check(&program_from_seed(seed, 300), seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn programs_that_once_failed() {
    let node = |label: &str, dims: &[usize]| TensorNode::builder(label).dims(dims.iter().copied());
    let rows = [
        (
            "A statement of rank 0 that needs a local is inlined as a whole.",
            vec![node("n", &[]), node("t", &[]), node("y", &[]).mode(MemoryMode::Materialized)],
            "t[] := n[] * n[]\ny[] := relu(exp(t[] + t[]) + 1)\n",
        ),
        (
            "The element read is the one written, and `[j + i, j]` determines `j` and then `i`, so the \
             conversion is inlined.",
            vec![
                node("n", &[3, 4]).dtype(DType::F32),
                node("t", &[6, 4]).dtype(DType::F32).mode(MemoryMode::Materialized),
            ],
            "t[j+i, j] := bit_and(i32(n[i, j]), i32(t[j+i, j]))\n",
        ),
        (
            "No point fulfills both conditions, so neither the subexpression nor the statement runs.",
            vec![node("n", &[2, 2]), node("t", &[2]).mode(MemoryMode::Materialized)],
            "t[i] :+= neg(n[i, i+j] < n[i, i]) where j < 1, i < j\n",
        ),
    ];
    for (what, nodes, text) in rows {
        let nodes = nodes.into_iter().map(|node| node.build().expect("small")).collect();
        check(&GeneratedProgram { text: text.to_owned(), nodes }, 1)
            .unwrap_or_else(|error| panic!("{what} {error}"));
    }
}

proptest! {
    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let result = check(&program_from_bytes(&bytes), bytes.len() as u64);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
