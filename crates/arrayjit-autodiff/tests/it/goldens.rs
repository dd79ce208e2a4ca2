//! Gradients of random programs against those of jax. `cargo xtask gradient-goldens` writes the file with the
//! programs and the gradients of jax.

use std::collections::BTreeMap;

use assignment_text::parse;
use assignments::{AccumOp, Assignments};
use autodiff::gradient;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use random_programs::{GradientGolden, ProgramNode, gradient_goldens};
use tnode::TensorNode;

use crate::compiled::results;
use crate::forms::{FORMS, FormCounts, count_accumulations, count_forms, count_operations};
use crate::support::Input;

/// The greatest accepted error, relative to the greatest element of a gradient where that is greater than 1.
/// The file has ten digits, and the functions of both libraries round differently.
const TOLERANCE: f64 = 1e-8;

/// The program of a golden, after its loss and gradients have been compared.
fn compared(golden: &GradientGolden) -> Result<Assignments, String> {
    let nodes: Vec<TensorNode> = golden.nodes.iter().map(ProgramNode::tensor_node).collect();
    let program = parse(&golden.text, &nodes).map_err(|error| error.to_string())?;
    let node = |name: &str| nodes.iter().find(|node| node.name() == name).expect("a node of the golden");
    let bindings: Vec<i64> = program.symbols.iter().map(|symbol| golden.symbol(&symbol.name)).collect();
    let given = golden.nodes.iter().zip(&nodes);
    let inputs: Vec<Input> = given
        .filter_map(|(given, node)| Some(Input { node: node.clone(), values: given.values()? }))
        .collect();
    let parameters: Vec<&TensorNode> = golden.gradients.iter().map(|(name, _)| node(name)).collect();
    let found = gradient(&program, node("loss"), &parameters).map_err(|error| error.to_string())?;
    let kept = [&[node("loss").clone()], found.gradients.as_slice()].concat();
    let values = results(&found.program, &inputs, &kept, &bindings)?;
    let gradients = golden.gradients.iter().map(|(name, values)| (name.as_str(), values.as_slice()));
    let expected = std::iter::once(("loss", std::slice::from_ref(&golden.loss))).chain(gradients);
    for ((name, expected), found) in expected.zip(values) {
        compare(name, expected, &found)?;
    }
    Ok(program)
}

fn compare(name: &str, expected: &[f64], found: &[f64]) -> Result<(), String> {
    let scale = expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * scale;
    if expected.len() == found.len() && expected.iter().zip(found).all(is_close) {
        return Ok(());
    }
    Err(format!("{name}: jax gives {expected:?}, found {found:?}"))
}

/// The operations of the table of derivatives that a text of floats can have; `mul3` exists in the table for
/// the formulas of its own derivatives.
fn operations() -> impl Iterator<Item = &'static str> {
    let unary = UnaryOp::ALL.iter().map(|op| op.token());
    let binary = BinaryOp::ALL.iter().filter(|op| !op.is_bitwise() && !op.is_random()).map(|op| op.token());
    let ternary = TernaryOp::ALL.iter().filter(|&&op| op != TernaryOp::Mul3).map(|op| op.token());
    unary.chain(binary).chain(ternary)
}

#[test]
fn gradients_are_those_of_jax() {
    let mut failures = Vec::new();
    let (mut forms, mut used) = (FormCounts::new(), FormCounts::new());
    let mut accumulations = BTreeMap::new();
    let goldens = gradient_goldens();
    for golden in &goldens {
        match compared(golden) {
            Ok(program) => {
                count_forms(&program, &mut forms);
                count_operations(&program, &mut used);
                count_accumulations(&program, &mut accumulations);
            }
            Err(why) => failures.push(format!("program {}: {why}\n{}", golden.seed, golden.text)),
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(goldens.len() >= 360, "{} programs", goldens.len());
    let further = ["margin", "reversed", "splitting", "stride", "window"];
    for form in FORMS.into_iter().chain(further) {
        assert!(forms.get(form).is_some_and(|&count| count >= 3), "{form}: {forms:?}");
    }
    for operation in operations() {
        assert!(used.contains_key(operation), "{operation}: {used:?}");
    }
    for op in AccumOp::ALL {
        assert!(accumulations.contains_key(&op), "{op}: {accumulations:?}");
    }
}
