//! Random programs, whose gradients by all inputs of floats are compared with differences and with tangents.

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use assignments::{Assignments, ProgramStep};
use autodiff::{CheckError, CheckOptions, GradientErrorKind, check, gradient};
use random_programs::{ProgramWeights, RandomProgram, effort, program_from_seed};
use tnode::{DType, HostArray, Scalar, TensorNode};

use crate::compiled::{compare_optimized, compare_tangent, overflows};
use crate::forms::{FORMS, FormCounts, count_forms};
use crate::support::{Input, noise};

/// The program with one of its steps detached: no derivative goes through the values that the step stores.
fn detached(mut program: Assignments, seed: u64) -> Assignments {
    let count = program.steps.len().max(1) as u64;
    let from = usize::try_from(seed % count).unwrap_or(0);
    let stored = |step: &ProgramStep| step.accums().first().map(|accum| accum.lhs.clone());
    let found = program.steps.iter().enumerate().skip(from).find_map(|(at, step)| Some((at, stored(step)?)));
    if let Some((at, node)) = found {
        program.steps.insert(at + 1, ProgramStep::Detach(node));
    }
    program
}

/// The values that the host gives to a node: moderate floats that are not 0, and integers as drawn.
fn input(node: &TensorNode, data: &[u64], seed: usize) -> Input {
    let values = if node.dtype().is_float() {
        let sign = |x: f64| if x < 0.5 { -0.2 - 2.0 * x } else { 2.2 * x - 0.9 };
        noise(seed, data.len()).into_iter().map(sign).collect()
    } else {
        data.iter()
            .map(|&bits| Scalar::new(node.dtype(), bits.into()).as_i64().rem_euclid(4) as f64)
            .collect()
    };
    Input { node: node.clone(), values }
}

/// The result of one program.
enum Outcome {
    /// The gradients are close to the differences.
    Close(Box<Assignments>),
    /// The front end rejects the program.
    Rejected,
    /// The program has no gradient, for a documented reason.
    WithoutGradient,
    /// No input is a parameter, or the loss changes too fast for differences.
    NotComparable,
}

fn outcome(random: &RandomProgram, seed: u64) -> Result<Outcome, String> {
    let loss = random.loss_text();
    if loss.is_empty() {
        return Ok(Outcome::NotComparable);
    }
    let mut nodes: Vec<TensorNode> = random.nodes.iter().map(|node| node.tensor_node()).collect();
    let text = random.text(0) + &loss;
    let loss = TensorNode::builder("loss").dims([]).dtype(DType::F64).build().expect("small");
    nodes.push(loss.clone());
    let Ok(program) = parse(&text, &nodes) else { return Ok(Outcome::Rejected) };
    let written = program.written_nodes();
    let bindings: Vec<i64> = program
        .symbols
        .iter()
        .map(|symbol| random.symbols.iter().position(|known| known.name == symbol.name))
        .map(|at| at.map_or(0, |at| random.rounds[0][at]))
        .collect();
    if lower(&program, &LowerOptions::default()).is_err() {
        return Ok(Outcome::Rejected);
    }
    let mut inputs: Vec<Input> = Vec::new();
    for (position, (node, drawn)) in nodes.iter().zip(&random.nodes).enumerate() {
        if let Some(data) = &drawn.data {
            inputs.push(input(node, data, position + 1000 * usize::try_from(seed).unwrap_or(0)));
        }
    }
    let parameters: Vec<&TensorNode> = inputs
        .iter()
        .map(|input| &input.node)
        .filter(|node| node.dtype().is_float() && !written.contains(node) && program.nodes().contains(node))
        .collect();
    if parameters.is_empty() {
        return Ok(Outcome::NotComparable);
    }
    let found = match gradient(&program, &loss, &parameters) {
        Ok(found) => found,
        Err(error) => {
            return match error.kind() {
                GradientErrorKind::Reduction { .. }
                | GradientErrorKind::ReadsWhatItWrites { .. }
                | GradientErrorKind::WritesSlice { .. }
                | GradientErrorKind::StaleSlice { .. } => Ok(Outcome::WithoutGradient),
                _ => Err(error.to_string()),
            };
        }
    };
    let arrays: Vec<(&TensorNode, HostArray)> =
        inputs.iter().map(|input| (&input.node, input.array())).collect();
    let mut differences = Vec::new();
    for step in [1e-5, 1e-6, 3e-5, 1e-7] {
        let options = CheckOptions { step, tolerance: 1e-4, bindings: bindings.clone() };
        match check(&program, &loss, &parameters, &arrays, &options) {
            Ok(_) => {
                compare_optimized(&found.program, &inputs, &found.gradients, &bindings)?;
                compare_tangent(&program, &loss, &found, inputs.clone(), &parameters, &bindings, 1e-9)?;
                let detached = detached(program.clone(), seed);
                let found = gradient(&detached, &loss, &parameters).map_err(|error| error.to_string())?;
                compare_tangent(&detached, &loss, &found, inputs.clone(), &parameters, &bindings, 1e-9)?;
                return Ok(Outcome::Close(Box::new(program)));
            }
            Err(CheckError::Differs { worst, .. }) => differences.push(worst),
            Err(error) => return Err(error.to_string()),
        }
    }
    // Differences that depend on the step are at a kink, or the loss changes too fast.
    let spread = differences.windows(2).any(|pair| {
        let (a, b) = (pair[0].difference, pair[1].difference);
        !(pair[0].index == pair[1].index && (a - b).abs() <= 1e-3 * (1.0 + a.abs()))
    });
    let is_nan = differences[0].gradient.is_nan() && overflows(&program, &inputs, &bindings)?;
    if spread || is_nan || !differences[0].difference.is_finite() {
        return Ok(Outcome::NotComparable);
    }
    Err(format!("{:?}\n{}", differences[0], found.program))
}

#[test]
fn gradients_of_random_programs() {
    let (mut close, mut rejected, mut without, mut not_comparable) = (0, 0, 0, 0);
    let mut counts = FormCounts::new();
    let mut failures = Vec::new();
    for seed in [1291, 2339].into_iter().chain(effort::seeds(100)) {
        let random = program_from_seed(seed, 300, &ProgramWeights::differentiable());
        match outcome(&random, seed) {
            Ok(Outcome::Close(program)) => {
                close += 1;
                count_forms(&program, &mut counts);
            }
            Ok(Outcome::Rejected) => rejected += 1,
            Ok(Outcome::WithoutGradient) => without += 1,
            Ok(Outcome::NotComparable) => not_comparable += 1,
            Err(why) => failures.push(format!("seed {seed}: {why}\n{}\n", random.text(0))),
        }
    }
    let summary = format!(
        "{close} close, {rejected} rejected, {without} without gradient, {not_comparable} not comparable\n{counts:?}"
    );
    assert!(failures.is_empty(), "{} failures; {summary}\n{}", failures.len(), failures.join("\n"));
    assert!(close >= 60, "{summary}");
    for form in FORMS {
        assert!(counts.get(form).is_some_and(|&count| count >= 1), "{form}: {summary}");
    }
}
