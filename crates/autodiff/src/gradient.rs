//! The gradient of a program.

use std::collections::BTreeSet;

use assignments::indexing::StaticSymbol;
use assignments::{Assignments, Origin, ProgramStep, Warning, WarningKind};
use tnode::TensorNode;

use crate::backward::BackwardPass;
use crate::error::{GradientError, GradientErrorKind};
use crate::forward_program::{ForwardProgram, filled};
use crate::statement::gradient_node;

/// A program followed by its backward pass.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The steps of the program, then those that compute the gradients. Lowering makes one routine of them.
    pub program: Assignments,
    /// The gradient by each parameter, in the order given, with the dimensions of the parameter and its type,
    /// but at least f32.
    pub gradients: Vec<TensorNode>,
}

/// The steps of a backward pass.
#[derive(Debug)]
pub struct Backward {
    /// The steps before, with copies of values that later ones of them overwrite.
    pub before: Vec<ProgramStep>,
    /// The steps that compute the gradients.
    pub steps: Vec<ProgramStep>,
    /// Warnings about parameters that the loss does not depend on, whose gradients are 0.
    pub warnings: Vec<Warning>,
}

/// What a backward pass computes.
#[derive(Clone, Copy, Debug)]
pub struct GradientRequest<'a> {
    /// The node whose gradient is computed.
    pub loss: &'a TensorNode,
    /// The gradient by the elements of the loss. Without one, the loss is a scalar.
    pub seed: Option<&'a TensorNode>,
    /// Each parameter with the node for its gradient.
    pub parameters: &'a [(TensorNode, TensorNode)],
    /// The statement that requests the gradient.
    pub origin: &'a Origin,
}

/// The gradient of a scalar by parameters. A parameter stands for the values that it has after the program.
///
/// ```
/// use assignments::text;
/// use tnode::{DType, TensorNode};
///
/// let node = |name, dims: &[usize]| {
///     TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build()
/// };
/// let (x, w, loss) = (node("x", &[4, 3])?, node("w", &[3])?, node("loss", &[])?);
/// let program = text::parse("loss :+= x[b,i] * w[i]", &[x, w.clone(), loss.clone()])?;
/// let gradient = autodiff::gradient(&program, &loss, &[&w])?;
/// assert_eq!(
///     gradient.program.to_string().lines().skip_while(|line| !line.contains("grad")).collect::<Vec<_>>(),
///     ["loss.grad =: 1;", "w.grad[i1] =:+ loss.grad * x[i0, i1];"]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`GradientErrorKind`].
pub fn gradient(
    program: &Assignments,
    loss: &TensorNode,
    parameters: &[&TensorNode],
) -> Result<Gradient, GradientError> {
    gradient_from(program, loss, None, parameters)
}

/// The gradient of a node of any dimensions, multiplied by the gradient `seed` by its elements.
///
/// # Errors
/// See [`GradientErrorKind`].
pub fn gradient_seeded(
    program: &Assignments,
    loss: &TensorNode,
    seed: &TensorNode,
    parameters: &[&TensorNode],
) -> Result<Gradient, GradientError> {
    gradient_from(program, loss, Some(seed), parameters)
}

fn gradient_from(
    program: &Assignments,
    loss: &TensorNode,
    seed: Option<&TensorNode>,
    parameters: &[&TensorNode],
) -> Result<Gradient, GradientError> {
    let mut pairs: Vec<(TensorNode, TensorNode)> = Vec::new();
    for &parameter in parameters {
        if pairs.iter().all(|(known, _)| known != parameter) {
            pairs.push((parameter.clone(), gradient_node(parameter)?));
        }
    }
    let request = GradientRequest { loss, seed, parameters: &pairs, origin: Origin::unknown() };
    let backward = backward(&program.steps, &program.symbols, &request)?;
    let mut program = Assignments { steps: backward.before, ..program.clone() };
    program.steps.extend(backward.steps);
    program.warnings.extend(backward.warnings);
    let gradient_of = |parameter: &&TensorNode| {
        pairs.iter().find(|(known, _)| known == *parameter).map(|(_, gradient)| gradient.clone())
    };
    let gradients = parameters.iter().filter_map(gradient_of).collect();
    Ok(Gradient { program, gradients })
}

/// The steps that compute gradients of the steps before them. `symbols` are the symbols of the program.
///
/// # Errors
/// See [`GradientErrorKind`].
pub fn backward(
    before: &[ProgramStep],
    symbols: &[StaticSymbol],
    request: &GradientRequest<'_>,
) -> Result<Backward, GradientError> {
    let &GradientRequest { loss, seed, parameters, origin } = request;
    let nodes: Vec<TensorNode> = parameters.iter().map(|(parameter, _)| parameter.clone()).collect();
    let forward = ForwardProgram::new(before, &nodes)?;
    check(&forward, request).map_err(|kind| kind.of(origin))?;
    let mut pass = BackwardPass::new(forward, symbols, parameters);
    pass.start(loss, seed, origin)?;
    pass.run()?;
    let (mut steps, reached) = (pass.tape.backward, pass.reached);
    let mut warnings = Vec::new();
    let mut warned = BTreeSet::new();
    for (parameter, gradient) in parameters {
        if !reached.contains(parameter) && warned.insert(parameter) {
            steps.push(filled(gradient, 0.0, origin));
            let kind = WarningKind::NoGradient { parameter: parameter.name(), loss: loss.name() };
            warnings.push(Warning::new(kind, origin.statement()));
        }
    }
    let before = pass.tape.forward.with_copies(before.to_vec());
    Ok(Backward { before, steps, warnings })
}

/// Checks that the request fits the program.
fn check(forward: &ForwardProgram, request: &GradientRequest<'_>) -> Result<(), GradientErrorKind> {
    let loss = request.loss;
    float(loss, "a loss")?;
    if !forward.writes(loss) {
        return Err(GradientErrorKind::LossNotWritten { loss: loss.name() });
    }
    match request.seed {
        Some(seed) => same_shape(seed, loss)?,
        None if loss.num_elems()? != 1 => {
            let dims = loss.dims_without_padding()?.to_vec();
            return Err(GradientErrorKind::NotScalar { loss: loss.name(), dims });
        }
        None => {}
    }
    for (parameter, gradient) in request.parameters {
        float(parameter, "a parameter")?;
        same_shape(gradient, parameter)?;
        if !forward.mentions(parameter) {
            let (parameter, known) = (parameter.name(), forward.float_inputs());
            return Err(GradientErrorKind::UnknownParameter { parameter, known });
        }
    }
    Ok(())
}

fn float(node: &TensorNode, role: &'static str) -> Result<(), GradientErrorKind> {
    let dtype = node.dtype();
    if dtype.is_float() {
        Ok(())
    } else {
        Err(GradientErrorKind::NotFloat { node: node.name(), dtype, role })
    }
}

fn same_shape(node: &TensorNode, of: &TensorNode) -> Result<(), GradientErrorKind> {
    let (found, expected) = (node.dims_without_padding()?, of.dims_without_padding()?);
    if found == expected {
        return Ok(());
    }
    let (node, of) = (node.name(), of.name());
    Err(GradientErrorKind::Shape { node, found: found.to_vec(), of, expected: expected.to_vec() })
}
