//! Random programs in assignment text are always accepted and verified, and the optimiser preserves their
//! bits.

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use filetests::generate::{
    GeneratedProgram, alike, bindings_from_bytes, bytes_of_seed, memory_from_bytes, program_from_bytes,
    program_from_seed,
};
use lowered_ir::interp;
use lowered_ir::ir::Numerics;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::{text, verify};
use proptest::prelude::*;
use tnode::{DType, MemoryMode, TensorNode};

fn check(program: &GeneratedProgram, seed: u64) -> Result<(), String> {
    let blame = |what: String| format!("{what}\n{}", program.text);
    let assignments = parse(&program.text, &program.nodes).map_err(|e| e.to_string())?;
    let options = LowerOptions { numerics: Numerics::Strict, ..LowerOptions::default() };
    let routine = lower(&assignments, &options).map_err(|e| blame(e.to_string()))?.lowered.routine;
    verify::verify(&routine).map_err(|e| blame(format!("{e}\n{}", text::print(&routine))))?;

    let bytes = bytes_of_seed(seed, 4096);
    let (memory, bindings) = (memory_from_bytes(&routine, &bytes), bindings_from_bytes(&routine, &bytes));
    let mut expected = memory.clone();
    interp::run(&routine, &mut expected, &bindings).map_err(|e| blame(e.to_string()))?;

    let optimized = optimize(routine, &OptimizeSettings::default()).map_err(|e| blame(e.to_string()))?;
    let listing = || blame(text::print(&optimized.routine));
    verify::verify(&optimized.routine).map_err(|e| format!("{e}\n{}", listing()))?;
    let mut found = memory;
    interp::run(&optimized.routine, &mut found, &bindings).map_err(|e| format!("{e}\n{}", listing()))?;
    for node in &optimized.outputs {
        let decl = optimized.routine.node(*node);
        if !alike(decl, &expected.nodes[node.index()], &found.nodes[node.index()]) {
            return Err(format!("{node} \"{}\" differs\n{}", decl.name, listing()));
        }
    }
    Ok(())
}

#[test]
fn seeds() {
    for seed in filetests::effort::seeds(60) {
        check(&program_from_seed(seed, 300), seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A statement of rank 0 that needs a local is inlined as a whole.
#[test]
fn a_scalar_used_twice() {
    let text = "t[] := n[] * n[]\ny[] := relu(exp(t[] + t[]) + 1)\n".to_owned();
    let node = |label: &str| TensorNode::builder(label).dims([]).build().expect("small");
    let y = TensorNode::builder("y").dims([]).mode(MemoryMode::Materialized).build().expect("small");
    check(&GeneratedProgram { text, nodes: vec![node("n"), node("t"), y] }, 1)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// The element read is the one written, and `[j + i, j]` determines `j` and then `i`, so the conversion is
/// inlined.
#[test]
fn a_read_of_the_target_at_a_sum_of_letters() {
    let text = "t[j+i, j] := bit_and(i32(n[i, j]), i32(t[j+i, j]))\n".to_owned();
    let node = |label: &str, rows: usize| TensorNode::builder(label).dims([rows, 4]).dtype(DType::F32);
    let t = node("t", 6).mode(MemoryMode::Materialized).build().expect("small");
    check(&GeneratedProgram { text, nodes: vec![node("n", 3).build().expect("small"), t] }, 1)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// No point fulfils both conditions, so neither the subexpression nor the statement runs.
#[test]
fn a_statement_without_points() {
    let text = "t[i] :+= neg(n[i, i+j] < n[i, i]) where j < 1, i < j\n".to_owned();
    let node = |label: &str, dims: &[usize]| TensorNode::builder(label).dims(dims.iter().copied());
    let t = node("t", &[2]).mode(MemoryMode::Materialized).build().expect("small");
    check(&GeneratedProgram { text, nodes: vec![node("n", &[2, 2]).build().expect("small"), t] }, 1)
        .unwrap_or_else(|error| panic!("{error}"));
}

proptest! {
    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let result = check(&program_from_bytes(&bytes), bytes.len() as u64);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
