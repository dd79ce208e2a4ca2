//! The gradient of a program.

use std::collections::BTreeSet;

use assignments::{Assignments, Origin, ProgramStep, Warning, WarningKind};
use lowered_ir::ir::SymbolId;
use tnode::TensorNode;

use crate::backward::BackwardPass;
use crate::error::{GradientError, GradientErrorKind, Result};
use crate::forward_program::{ForwardProgram, filled, names_of};
use crate::name_supply::NameSupply;
use crate::recompute::Recomputation;
use crate::relevant::RelevantSteps;
use crate::scans::{FlatProgram, has_backward_scan};
use crate::statement::{Tape, gradient_node};

/// A program followed by its backward pass.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The steps of the program, then the steps of the gradients. Lowering makes one routine of all steps.
    pub program: Assignments,
    /// The gradient by each parameter, in the order given, with the dimensions of the parameter and its type,
    /// but at least f32.
    pub gradients: Vec<TensorNode>,
    /// Whether the loss depends on each parameter, in the order given; if not, its gradient is 0.
    pub reached: Vec<bool>,
}

/// A gradient to compute.
struct Request<'a> {
    /// The node whose gradient is computed.
    loss: &'a TensorNode,
    /// The gradient by the elements of the loss. Without one, the loss is a scalar.
    seed: Option<&'a TensorNode>,
    /// Each parameter with the node for its gradient.
    parameters: &'a [(TensorNode, TensorNode)],
    /// The most bytes in which the gradient stores values of the steps of one scan, if there is a limit.
    scan_bytes: Option<u64>,
    /// The statement that requests the gradient: operand 0 is the loss, and operand `1 + k` the parameter at
    /// position `k`.
    origin: &'a Origin,
}

/// The gradient of a scalar by parameters. A parameter stands for the values that it has when the scalar is
/// computed; later steps, such as an update of the parameter, have no effect.
///
/// ```
/// use assignment_text::parse;
/// use tnode::{DType, TensorNode};
///
/// let node = |name, dims: &[usize]| {
///     TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build()
/// };
/// let (x, w, loss) = (node("x", &[4, 3])?, node("w", &[3])?, node("loss", &[])?);
/// let program = parse("loss :+= x[b,i] * w[i]", &[x, w.clone(), loss.clone()])?;
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
) -> Result<Gradient> {
    let mut pairs: Vec<(TensorNode, TensorNode)> = Vec::new();
    for &parameter in parameters {
        if pairs.iter().all(|(known, _)| known != parameter) {
            pairs.push((parameter.clone(), gradient_node(parameter)?));
        }
    }
    let mut program = program.clone();
    expand(&mut program)?;
    copy_scans(&mut program)?;
    let mut before = FlatProgram::new(&program.steps, &program.symbols);
    let mut names = names_of(&before.steps, &pairs);
    if is_divisible(&program) {
        let steps: Vec<&ProgramStep> = before.steps.iter().collect();
        before.start = RelevantSteps::default().first(&steps, loss, &pairs);
        before.steps.drain(..before.start);
    }
    let scan_bytes = program.scan_gradient_bytes;
    let request = Request { loss, seed, parameters: &pairs, scan_bytes, origin: Origin::unknown() };
    let (steps, reached) = backward(&mut program, before, &request, &mut names)?;
    program.steps.extend(steps);
    let gradient_of = |parameter: &&TensorNode| {
        pairs.iter().find(|(known, _)| known == *parameter).map(|(_, gradient)| gradient.clone())
    };
    let gradients = parameters.iter().filter_map(gradient_of).collect();
    let reached = parameters.iter().map(|parameter| reached.contains(*parameter)).collect();
    Ok(Gradient { program, gradients, reached })
}

/// Replaces each [`ProgramStep::Gradient`] by the steps that compute it.
///
/// The gradient of a scan is a scan in the other direction, and the scan stores the values that it needs. A
/// program has a copy of a scan's steps for each of its values instead if the scan contains another one or a
/// slice, or draws random numbers by its letter within expressions, or if the program computes values again
/// on request.
///
/// A gradient considers all steps before it on which its loss depends, also the steps of earlier gradients,
/// and is the one by the values that the loss was computed with. Copies of values that the program overwrites
/// are inserted where the gradient needs them. The program gets a warning for each gradient that is 0 because
/// the loss does not depend on the parameter.
///
/// ```
/// use assignment_text::Program;
///
/// let text = "
///     input x f32[3]
///     param w f32[3]
///     loss :+= x[i] * w[i]
///     grad loss by w
///     w[i] -= 0.1 * w.grad[i]";
/// let mut program = Program::parse(text)?.assignments(&[])?;
/// autodiff::expand(&mut program)?;
/// assert!(program.to_string().contains("w.grad[i0] =:+ loss.grad * x[i0];"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`GradientErrorKind`]. After an error, the gradients before the one that failed have been replaced.
pub fn expand(program: &mut Assignments) -> Result<(), GradientError> {
    if !program.has_gradients() {
        return Ok(());
    }
    copy_scans(program)?;
    let mut names = None;
    let mut relevant = is_divisible(program).then(RelevantSteps::default);
    while let Some((before, step)) = first_gradient(program, relevant.as_mut())? {
        let ProgramStep::Gradient { loss, parameters, origin } = &step else { break };
        // Further gradients would go through copies of the steps of a divided scan.
        let scan_bytes = program.scan_gradient_bytes.filter(|_| is_last_gradient(program));
        let request = Request { loss, seed: None, parameters, scan_bytes, origin };
        let all = || names_of(&FlatProgram::new(&program.steps, &program.symbols).steps, &[]);
        let names = names.get_or_insert_with(all);
        let (steps, _) = backward(program, before, &request, names)?;
        replace_first_gradient(&mut program.steps, &mut Some(steps));
    }
    Ok(())
}

/// The most steps of a program that is differentiated, where each scan has a copy of its steps for each of
/// its values.
const MAX_STEPS: u64 = 1 << 18;

/// Replaces the scans of a program whose gradients are no scans by copies of their steps.
fn copy_scans(program: &mut Assignments) -> Result<()> {
    if !program.has_scans() {
        return Ok(());
    }
    let copied = program.clone();
    unroll_scans(program, &|symbol, steps| {
        copied.recomputed.is_empty() && has_backward_scan(&copied, symbol, steps)
    })
}

/// Replaces the scans of a program by copies of their steps, except for those that `keep` selects.
pub(crate) fn unroll_scans(
    program: &mut Assignments,
    keep: &dyn Fn(SymbolId, &[ProgramStep]) -> bool,
) -> Result<()> {
    let steps = program.num_unrolled_steps(keep);
    if steps > MAX_STEPS {
        return Err(GradientErrorKind::ScanSteps { steps, max: MAX_STEPS }.into());
    }
    Ok(program.unroll_scans(keep)?)
}

/// The steps before the first gradient, and that gradient.
///
/// The gradient of a scan with checkpoints leaves scans in scans, through which further gradients go.
fn first_gradient(
    program: &mut Assignments,
    relevant: Option<&mut RelevantSteps>,
) -> Result<Option<(FlatProgram, ProgramStep)>> {
    if let Some(relevant) = relevant {
        let mut steps = Vec::new();
        let gradient = steps_before_gradient(&program.steps, &mut steps);
        let Some(gradient @ ProgramStep::Gradient { loss, parameters, .. }) = gradient else {
            return Ok(None);
        };
        let start = relevant.first(&steps, loss, parameters);
        let steps = steps[start..].iter().copied().cloned().collect();
        return Ok(Some((FlatProgram { start, steps, scans: Vec::new() }, gradient.clone())));
    }
    if !program.has_gradients() {
        return Ok(None);
    }
    copy_scans(program)?;
    let mut flat = FlatProgram::new(&program.steps, &program.symbols);
    let is_gradient = |step: &ProgramStep| matches!(step, ProgramStep::Gradient { .. });
    let Some(at) = flat.steps.iter().position(is_gradient) else { return Ok(None) };
    let gradient = flat.steps[at].clone();
    flat.truncate(at);
    Ok(Some((flat, gradient)))
}

fn is_last_gradient(program: &Assignments) -> bool {
    let is_gradient = |step: &&ProgramStep| matches!(step, ProgramStep::Gradient { .. });
    assignments::all_steps(&program.steps).filter(is_gradient).count() == 1
}

/// Whether steps on which a gradient does not depend can be left out.
fn is_divisible(program: &Assignments) -> bool {
    !program.has_scans() && program.recomputed.is_empty()
}

/// Appends the steps before the first gradient that are no blocks. Returns that gradient.
fn steps_before_gradient<'a>(
    steps: &'a [ProgramStep],
    before: &mut Vec<&'a ProgramStep>,
) -> Option<&'a ProgramStep> {
    steps.iter().find_map(|step| match step {
        ProgramStep::Gradient { .. } => Some(step),
        ProgramStep::Block { steps, .. } => steps_before_gradient(steps, before),
        step => {
            before.push(step);
            None
        }
    })
}

fn replace_first_gradient(steps: &mut Vec<ProgramStep>, by: &mut Option<Vec<ProgramStep>>) {
    for at in 0..steps.len() {
        match &mut steps[at] {
            ProgramStep::Gradient { .. } => {
                steps.splice(at..=at, by.take().unwrap_or_default());
                return;
            }
            ProgramStep::Block { steps, .. } => replace_first_gradient(steps, by),
            _ => {}
        }
        if by.is_none() {
            return;
        }
    }
}

/// The steps that compute a gradient of the steps `before`, with which a program begins. Inserts copies of
/// values that these steps overwrite into the program, and adds warnings to it. `names` has the names of the
/// program's nodes, and of new ones after the call. The set has the parameters that the loss depends on.
fn backward(
    program: &mut Assignments,
    before: FlatProgram,
    request: &Request<'_>,
    names: &mut NameSupply,
) -> Result<(Vec<ProgramStep>, BTreeSet<TensorNode>)> {
    let &Request { loss, parameters, origin, .. } = request;
    let limit = request.scan_bytes.filter(|_| !before.scans.is_empty());
    let undivided = limit.map(|limit| (limit, before.clone(), names.clone(), program.symbols.clone()));
    let (mut tape, mut reached) = backward_pass(program, before, request, std::mem::take(names))?;
    if let Some((limit, before, names, symbols)) = undivided
        && tape.add_checkpoints(limit, program)?
    {
        program.symbols = symbols;
        (tape, reached) = backward_pass(program, before, request, names)?;
    }
    let (mut steps, forward) = (tape.backward, tape.forward);
    let mut warned = BTreeSet::new();
    for (position, (parameter, gradient)) in parameters.iter().enumerate() {
        if !reached.contains(parameter) && warned.insert(parameter) {
            steps.push(filled(gradient, 0.0, origin));
            let kind = WarningKind::NoGradient { parameter: parameter.name(), loss: loss.name() };
            program.warnings.push(Warning::new(kind, origin.operand(1 + position)));
        }
    }
    program.checkpoints.retain(|symbol, _| !forward.divides(*symbol));
    (program.steps, *names) = forward.with_copies(std::mem::take(&mut program.steps));
    Ok((steps, reached))
}

/// The backward pass of the steps `before`, and the parameters that the loss depends on.
fn backward_pass(
    program: &mut Assignments,
    mut before: FlatProgram,
    request: &Request<'_>,
    names: NameSupply,
) -> Result<(Tape, BTreeSet<TensorNode>)> {
    before.divide(program);
    let &Request { loss, seed, parameters, origin, .. } = request;
    let forward = ForwardProgram::new(before, loss, parameters, names)?;
    check(&forward, request)?;
    let mut pass = BackwardPass::new(forward, &program.symbols, parameters);
    pass.narrow = program.narrow_gradients;
    let requests = program.recomputed.clone();
    pass.tape.recomputation = Recomputation::of(requests, &program.kept, &pass.tape.forward);
    pass.start(loss, seed, origin)?;
    pass.run()?;
    Ok((pass.tape, pass.reached))
}

/// Checks that the request fits the program.
fn check(forward: &ForwardProgram, request: &Request<'_>) -> Result<()> {
    let mentioned = forward.nodes();
    check_loss(forward, request).map_err(|kind| kind.at(request.origin.operand(0)))?;
    for (position, (parameter, gradient)) in request.parameters.iter().enumerate() {
        let checked = float(parameter, "a parameter").and_then(|()| same_shape(gradient, parameter));
        checked.map_err(|kind| kind.at(request.origin.operand(1 + position)))?;
        if !mentioned.contains(parameter) {
            let (parameter, known) = (parameter.name(), forward.float_inputs());
            let kind = GradientErrorKind::UnknownParameter { parameter, known };
            return Err(kind.at(request.origin.operand(1 + position)));
        }
        if let Some(step) = forward.write_between_reads(request.loss, parameter, request.parameters) {
            let (loss, parameter) = (request.loss.name(), parameter.name());
            return Err(GradientErrorKind::OlderValues { loss, parameter }.of(step.origin()));
        }
    }
    Ok(())
}

fn check_loss(forward: &ForwardProgram, request: &Request<'_>) -> Result<(), GradientErrorKind> {
    let loss = request.loss;
    float(loss, "a loss")?;
    if !forward.writes(loss) {
        return Err(GradientErrorKind::LossNotWritten { loss: loss.name() });
    }
    match request.seed {
        Some(seed) => same_shape(seed, loss),
        None if loss.num_elems()? != 1 => {
            let dims = loss.dims_without_padding()?.to_vec();
            Err(GradientErrorKind::NotScalar { loss: loss.name(), dims })
        }
        None => Ok(()),
    }
}

pub(crate) fn float(node: &TensorNode, role: &'static str) -> Result<(), GradientErrorKind> {
    let dtype = node.dtype();
    if dtype.is_float() {
        Ok(())
    } else {
        Err(GradientErrorKind::NotFloat { node: node.name(), dtype, role })
    }
}

pub(crate) fn same_shape(node: &TensorNode, of: &TensorNode) -> Result<(), GradientErrorKind> {
    let (found, expected) = (node.dims_without_padding()?, of.dims_without_padding()?);
    if found == expected {
        return Ok(());
    }
    let (node, of) = (node.name(), of.name());
    Err(GradientErrorKind::Shape { node, found: found.to_vec(), of, expected: expected.to_vec() })
}
