//! Compares the gradients of random programs on a GPU with the interpreter. The programs are those that jax
//! differentiated, in `f32`.

use std::collections::BTreeMap;

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_testkit::{Agreement, Outcome, bounds::Closeness, run_generated_on};
use lowered_ir::ir::{LoweredRoutine, Numerics};
use random_programs::{GradientGolden, ProgramNode, bytes_of_seed, effort, gradient_goldens};
use tnode::{DType, TensorNode};

use crate::gpu;

/// The routine that computes the loss and the gradients in `f32`, with strict numerics.
fn routine(golden: &GradientGolden) -> LoweredRoutine {
    let single = |node: &ProgramNode| ProgramNode {
        dtype: if node.dtype == DType::F64 { DType::F32 } else { node.dtype },
        ..node.clone()
    };
    let nodes: Vec<TensorNode> = golden.nodes.iter().map(|node| single(node).tensor_node()).collect();
    let node = |name: &str| nodes.iter().find(|node| node.name() == name).expect("a node of the golden");
    let program =
        parse(&golden.text.replace("f64(", "f32("), &nodes).unwrap_or_else(|error| panic!("{error}"));
    let parameters: Vec<&TensorNode> = golden.gradients.iter().map(|(name, _)| node(name)).collect();
    let gradient = autodiff::gradient(&program, node("loss"), &parameters);
    let mut gradient = gradient.unwrap_or_else(|error| panic!("{error}"));
    gradient.program.kept.extend(gradient.gradients);
    let symbols = gradient.program.symbols.iter().cloned().collect();
    let options = LowerOptions { symbols, numerics: Numerics::Strict, ..LowerOptions::default() };
    lower(&gradient.program, &options).unwrap_or_else(|error| panic!("{error}")).lowered.routine
}

#[test]
fn gradients_on_the_gpu() {
    let Some(gpu) = gpu("gradients_on_the_gpu") else { return };
    let goldens = gradient_goldens();
    let step = goldens.len().div_ceil(effort::cases(20) as usize);
    let (mut close, mut skips, mut passed) = (Closeness::default(), BTreeMap::<String, usize>::new(), 0);
    let (mut failures, mut count) = (Vec::new(), 0);
    for golden in goldens.iter().step_by(step) {
        count += 1;
        let bytes = bytes_of_seed(golden.seed, 4096);
        match run_generated_on(gpu.codegen(), &gpu.device, &routine(golden), &bytes, Agreement::Bounds) {
            Ok(more) => (close, passed) = (close.and(more), passed + 1),
            Err(Outcome::Skipped(why)) => *skips.entry(why).or_default() += 1,
            Err(outcome) => failures.push(format!("program {}: {outcome:?}", golden.seed)),
        }
    }
    println!("{passed} of {count} gradients: {close}");
    skips.iter().for_each(|(why, count)| println!("skip(gradient): {why} ({count})"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(passed * 2 >= count, "only {passed} of {count} ran");
}
