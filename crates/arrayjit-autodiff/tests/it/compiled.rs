//! Gradients after the optimizer: the interpreter gives the same bits with and without it.

use assignments::Assignments;
use assignments::lower::{LowerOptions, lower};
use autodiff::{Gradient, tangent};
use lowered_ir::Lowered;
use lowered_ir::interp::{Memory, run};
use lowered_ir::ir::{LoweredRoutine, Numerics};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::verify::verify;
use tnode::{Scalar, TensorNode};

use crate::support::{Input, noise};

/// The values of some nodes of type f32 or f64 after a run of the interpreter.
pub(crate) fn results(
    program: &Assignments,
    inputs: &[Input],
    results: &[TensorNode],
    bindings: &[i64],
) -> Result<Vec<Vec<f64>>, String> {
    let lowered = lowered(program, results)?;
    let memory = interpreted(&lowered.routine, &lowered, inputs, bindings)?;
    let values = |node: &TensorNode| {
        let at = lowered.nodes.iter().position(|known| known == node);
        let bytes = at.map_or(&[][..], |at| &memory.nodes[at]);
        let scalars = bytes.chunks(node.dtype().size_bytes());
        scalars.filter_map(|bytes| Scalar::read(node.dtype(), bytes)).map(Scalar::as_f64).collect()
    };
    Ok(results.iter().map(values).collect())
}

/// Compares the tangent of the loss in a direction with the gradient of `gradient` in that direction.
pub(crate) fn compare_tangent(
    program: &Assignments,
    loss: &TensorNode,
    gradient: &Gradient,
    inputs: Vec<Input>,
    parameters: &[&TensorNode],
    bindings: &[i64],
    tolerance: f64,
) -> Result<(), String> {
    let gradients = results(&gradient.program, &inputs, &gradient.gradients, bindings)?;
    let mut inputs = inputs;
    let (mut expected, mut scale) = (0.0, 1.0);
    let mut pairs = Vec::new();
    for (position, (&parameter, gradient)) in parameters.iter().zip(&gradients).enumerate() {
        let dims = parameter.dims_without_padding().map_err(|error| error.to_string())?;
        let direction =
            TensorNode::builder(format!("direction_{position}")).dims(dims).dtype(parameter.dtype());
        let direction = direction.build().map_err(|error| error.to_string())?;
        let values: Vec<f64> = noise(position + 77, gradient.len()).into_iter().map(|x| x - 0.5).collect();
        for (a, b) in gradient.iter().zip(&values) {
            expected += a * b;
            scale += (a * b).abs();
        }
        pairs.push((parameter, direction.clone()));
        inputs.push(Input { node: direction, values });
    }
    let pairs: Vec<(&TensorNode, &TensorNode)> =
        pairs.iter().map(|(node, direction)| (*node, direction)).collect();
    let found = tangent(program, &pairs, &[loss]).map_err(|error| error.to_string())?;
    let change = results(&found.program, &inputs, &found.tangents, bindings)?;
    let error = (change[0][0] - expected).abs();
    if error.is_nan() || error > tolerance * scale {
        return Err(format!(
            "the tangent is {}, the gradient gives {expected}\n{}",
            change[0][0], found.program
        ));
    }
    compare_optimized(&found.program, &inputs, &found.tangents, bindings)
}

/// Compares the bits of `results` with and without optimization.
pub(crate) fn compare_optimized(
    program: &Assignments,
    inputs: &[Input],
    results: &[TensorNode],
    bindings: &[i64],
) -> Result<(), String> {
    let lowered = lowered(program, results)?;
    let optimized = optimize(lowered.routine.clone(), &OptimizeSettings::default());
    let optimized = optimized.map_err(|error| error.to_string())?.routine;
    verify(&optimized).map_err(|error| error.to_string())?;
    let plain = interpreted(&lowered.routine, &lowered, inputs, bindings)?;
    let optimized = interpreted(&optimized, &lowered, inputs, bindings)?;
    for result in results {
        let Some(at) = lowered.nodes.iter().position(|node| node == result) else { continue };
        if plain.nodes[at] != optimized.nodes[at] {
            return Err(format!("{} has other bits after optimization", result.name()));
        }
    }
    Ok(())
}

/// Whether a run of the program gives a node a value that is not finite. Its gradients may then be NaN where
/// differences are numbers, because zero times infinity is NaN.
pub(crate) fn overflows(program: &Assignments, inputs: &[Input], bindings: &[i64]) -> Result<bool, String> {
    let lowered = lowered(program, &[])?;
    let memory = interpreted(&lowered.routine, &lowered, inputs, bindings)?;
    let mut values = lowered.nodes.iter().zip(&memory.nodes).flat_map(|(node, bytes)| {
        let scalars = bytes.chunks(node.dtype().size_bytes());
        scalars.filter_map(|bytes| Scalar::read(node.dtype(), bytes)).map(Scalar::as_f64)
    });
    Ok(values.any(|value| !value.is_finite()))
}

fn lowered(program: &Assignments, kept: &[TensorNode]) -> Result<Lowered, String> {
    let mut program = program.clone();
    program.kept.extend(kept.iter().cloned());
    let symbols = program.symbols.iter().cloned().collect();
    let options = LowerOptions { symbols, numerics: Numerics::Strict, ..LowerOptions::default() };
    Ok(lower(&program, &options).map_err(|error| error.to_string())?.lowered)
}

fn interpreted(
    routine: &LoweredRoutine,
    lowered: &Lowered,
    inputs: &[Input],
    bindings: &[i64],
) -> Result<Memory, String> {
    let mut memory = Memory::zeroed(routine);
    for input in inputs {
        if let Some(at) = lowered.nodes.iter().position(|node| *node == input.node) {
            memory.nodes[at] = input.bytes();
        }
    }
    run(routine, &mut memory, bindings).map_err(|error| error.to_string())?;
    Ok(memory)
}
