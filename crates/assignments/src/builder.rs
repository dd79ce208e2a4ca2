//! Builds assignments without a text.
//!
//! ```
//! use assignments::{AccumOp, builder};
//! use lowered_ir::ir::BinaryOp;
//! use tnode::TensorNode;
//!
//! let node = |name, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build();
//! let (a, b, c) = (node("a", &[4, 8])?, node("b", &[8, 2])?, node("c", &[4, 2])?);
//! let matmul = builder::einsum("m,k; k,n => m,n", &c, AccumOp::Add, BinaryOp::Mul, [&a, &b])?;
//! assert_eq!(matmul.to_string(), "c[i0, i1] =:+ a[i0, i2] * b[i2, i1];\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use tnode::{DType, Dims, Scalar, TensorNode};

pub use super::gather_scatter::{accumulate_at, gather, scatter};
use super::{
    Accum, AccumOp, Assignments, FetchOp, KeyPart, Operand, Origin, ProgramStep, Random, Rhs, SampleValues,
};
use crate::indexing::einsum::{self, SpecError};
use crate::indexing::{IndexError, Indexed, Projection, Projections, StaticSymbol, identity_projections};
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::{Distribution, Scheme};

/// A reason why assignments cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum BuildError {
    /// The sizes of a node are not settled.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
    /// The indices do not fit the nodes.
    #[error("assignment to node {node}: {source}")]
    Index { node: String, source: IndexError },
    /// The einsum text is wrong or does not fit the nodes.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A concatenation of no nodes, or a split into no nodes.
    #[error("node {node}: expected at least one part, found none")]
    NoParts { node: String },
    /// The dimensions of the nodes of a gather or scatter do not fit.
    #[error(
        "node {values} has dimensions {found:?}, expected {expected:?}: those of {table} with the ones of the indices for axis {axis}"
    )]
    Gathered { values: String, found: Vec<usize>, expected: Vec<usize>, table: String, axis: usize },
    /// An operand of a pointwise operation has other dimensions than the node written.
    #[error("node {operand} has dimensions {found:?}, expected {expected:?} as node {lhs} has")]
    Shape { operand: String, found: Vec<usize>, lhs: String, expected: Vec<usize> },
}

/// A program of one step.
pub(super) fn single(step: ProgramStep) -> Assignments {
    Assignments { steps: vec![step], ..Assignments::default() }
}

fn filled(node: &TensorNode, op: FetchOp) -> ProgramStep {
    ProgramStep::Fetch { node: node.clone(), op, origin: Origin::default() }
}

/// Fills `node` with `op`.
pub fn fetch(node: &TensorNode, op: FetchOp) -> Assignments {
    single(filled(node, op))
}

/// Fills `node` with one number.
pub fn constant(node: &TensorNode, value: f64) -> Assignments {
    fetch(node, FetchOp::Constant(value))
}

/// Fills `node` with the value of a static symbol.
pub fn embed_symbol(node: &TensorNode, symbol: &StaticSymbol) -> Assignments {
    let mut assignments = Assignments::default();
    let op = FetchOp::EmbedSymbol(assignments.symbol(symbol));
    assignments.steps.push(filled(node, op));
    assignments
}

/// `detach node`: no derivative goes through the values that the node has here.
///
/// ```
/// use assignments::builder::{constant, detach};
/// use tnode::TensorNode;
///
/// let m = TensorNode::builder("m").dims([3]).build()?;
/// assert_eq!(constant(&m, 1.0).then(detach(&m)).to_string(), "m =: 1;\ndetach m;\n");
/// # Ok::<(), tnode::TensorNodeError>(())
/// ```
pub fn detach(node: &TensorNode) -> Assignments {
    single(ProgramStep::Detach(node.clone()))
}

/// `node := slice(of, @symbol)`: the slice of `of` at one index of its first axis; a view if possible.
pub fn slice(node: &TensorNode, of: &TensorNode, symbol: &StaticSymbol) -> Assignments {
    let mut assignments = Assignments::default();
    let op = FetchOp::Slice { index: assignments.symbol(symbol), of: of.clone() };
    assignments.steps.push(filled(node, op));
    assignments
}

/// Fills `node` with random numbers. The key refers to symbols by their position in the program that this one
/// is joined with; [`random_at`] enters them by name.
pub fn random(node: &TensorNode, random: Random) -> Assignments {
    fetch(node, FetchOp::Random(random))
}

/// Fills `node` with random numbers, and folds the values of `symbols` (such as a step number) into the key.
pub fn random_at(node: &TensorNode, random: Random, symbols: &[StaticSymbol]) -> Assignments {
    let mut assignments = Assignments::default();
    let random = symbols
        .iter()
        .fold(random, |random, symbol| random.part(KeyPart::Symbol(assignments.symbol(symbol))));
    assignments.steps.push(filled(node, FetchOp::Random(random)));
    assignments
}

/// Fills `node` with the positions of the elements along an axis of `of` in sorted order, or with the first
/// of them; [`FetchOp::Order`] has the rules.
pub fn order(node: &TensorNode, of: &TensorNode, axis: usize, is_descending: bool) -> Assignments {
    fetch(node, FetchOp::Order { of: of.clone(), axis, is_descending })
}

/// Fills `node` with values of the samples in `of`, a node of type `u32x4` with one sample for each chunk of
/// the last axis.
pub fn sample_values(
    node: &TensorNode,
    distribution: Distribution,
    scheme: Scheme,
    of: &TensorNode,
) -> Assignments {
    fetch(node, FetchOp::SampleValues(SampleValues { distribution, scheme, of: of.clone() }))
}

/// `lhs := op(operand)`, element by element; all dimensions are equal.
///
/// # Errors
/// If dimensions are unsettled or differ.
pub fn unary(lhs: &TensorNode, op: UnaryOp, operand: &TensorNode) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Unary(op, operand.into()))
}

/// `lhs := a op b`, element by element; all dimensions are equal.
///
/// # Errors
/// If dimensions are unsettled or differ.
pub fn binary(lhs: &TensorNode, op: BinaryOp, operands: [&TensorNode; 2]) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Binary(op, operands.map(Operand::from)))
}

/// `lhs := op(a, b, c)`, element by element; all dimensions are equal.
///
/// # Errors
/// If dimensions are unsettled or differ.
pub fn ternary(
    lhs: &TensorNode,
    op: TernaryOp,
    operands: [&TensorNode; 3],
) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Ternary(op, operands.map(Operand::from)))
}

/// `lhs := operand`, element by element; a constant fills `lhs`.
///
/// # Errors
/// If dimensions are unsettled or differ.
pub fn copy(lhs: &TensorNode, operand: impl Into<Operand>) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Copy(operand.into()))
}

fn pointwise(lhs: &TensorNode, rhs: Rhs) -> Result<Assignments, BuildError> {
    let dims = lhs.dims_without_padding()?;
    let identity = identity_projections(&dims);
    let indexed = |operand: &Operand| match dims_of(operand)? {
        None => Ok((Dims::new(), Projection::new())),
        Some(found) if found == dims => Ok((dims.clone(), identity.clone())),
        Some(found) => Err(BuildError::Shape {
            operand: name_of(operand),
            found: found.to_vec(),
            lhs: lhs.name(),
            expected: dims.to_vec(),
        }),
    };
    let operands = rhs.operands().iter().map(indexed).collect::<Result<Vec<Indexed>, _>>()?;
    let projections = Projections::new(&dims, (dims.clone(), identity.clone()), operands, "pointwise")
        .map_err(|source| BuildError::Index { node: lhs.name(), source })?;
    Ok(accumulate(false, AccumOp::Assign, lhs, rhs, projections))
}

/// The dimensions of an operand's node, without padding; `None` for operands without a node.
fn dims_of(operand: &Operand) -> Result<Option<Dims>, BuildError> {
    match operand {
        Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => {
            Ok(Some(node.dims_without_padding()?))
        }
        Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. } => Ok(None),
    }
}

fn name_of(operand: &Operand) -> String {
    match operand {
        Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => node.name(),
        Operand::Constant(value) => value.to_string(),
        Operand::Index(dtype) => format!("index of type {dtype}"),
        Operand::Random { random, .. } => random.distribution.token().to_owned(),
    }
}

/// Accumulates any operation over any projections. Lowering checks that they fit the nodes.
pub fn accumulate(
    init_neutral: bool,
    op: AccumOp,
    lhs: &TensorNode,
    rhs: Rhs,
    projections: Projections,
) -> Assignments {
    single(ProgramStep::Accum(Box::new(Accum {
        init_neutral,
        op,
        lhs: lhs.clone(),
        rhs,
        computed: Vec::new(),
        projections,
        origin: Origin::default(),
    })))
}

/// Sets `lhs` to the neutral element of `accum` and accumulates `a op b` over the indices of an einsum text,
/// whose grammar is in [`einsum`](mod@crate::indexing::einsum).
///
/// Windows that reach beyond a node read its margins, if those are as wide as the windows need; else such
/// reads give 0, or, in [`permute`], the neutral element of `accum`.
///
/// # Errors
/// If the text is wrong, the nodes do not fit it, or dimensions are unsettled.
pub fn einsum(
    spec: &str,
    lhs: &TensorNode,
    accum: AccumOp,
    op: BinaryOp,
    operands: [&TensorNode; 2],
) -> Result<Assignments, BuildError> {
    einsum_of(spec, lhs, accum, Rhs::Binary(op, operands.map(Operand::from)))
}

/// Sets `lhs` to the neutral element of `accum` and accumulates the elements of one operand over the indices
/// of an einsum text.
///
/// # Errors
/// Returns the same errors as [`einsum`](fn@einsum).
pub fn permute(
    spec: &str,
    lhs: &TensorNode,
    accum: AccumOp,
    operand: &TensorNode,
) -> Result<Assignments, BuildError> {
    einsum_of(spec, lhs, accum, Rhs::Copy(operand.into()))
}

fn einsum_of(spec: &str, lhs: &TensorNode, accum: AccumOp, rhs: Rhs) -> Result<Assignments, BuildError> {
    let dims = rhs.operands().iter().map(|operand| Ok(dims_of(operand)?.unwrap_or_default()));
    let dims = dims.collect::<Result<Vec<Dims>, BuildError>>()?;
    let resolved = einsum::resolve(spec, &dims, &lhs.dims_without_padding()?)?;
    let outside = match rhs {
        Rhs::Copy(_) => accum.neutral(DType::F64),
        _ => Scalar::from_f64(DType::F64, 0.0),
    };
    let mut rhs = rhs;
    for (operand, needed) in rhs.operands_mut().iter_mut().zip(&resolved.padding) {
        if let Operand::Node(node) = operand
            && !has_margins(node, needed)
        {
            *operand = Operand::Padded { node: node.clone(), outside };
        }
    }
    Ok(accumulate(true, accum, lhs, rhs, resolved.projections))
}

/// Whether the node's margins are as wide as its windows need, on each axis.
fn has_margins(node: &TensorNode, needed: &[(usize, usize)]) -> bool {
    let found = |axis: usize| node.padding().map_or((0, 0), |p| (p.axes[axis].left, p.axes[axis].right));
    needed.iter().enumerate().all(|(axis, &(left, right))| {
        let (has_left, has_right) = found(axis);
        left <= has_left && right <= has_right
    })
}

/// Accumulates operands into targets over an einsum text with concatenated axes: `i; j => i^j` concatenates
/// two operands, `i^j => i; j` splits one. With `init_neutral`, all targets are set to the neutral element
/// first.
///
/// # Errors
/// Returns the same errors as [`einsum`](fn@einsum), and an error if a component has no operand or target, or
/// several.
pub fn block(
    spec: &str,
    targets: &[&TensorNode],
    init_neutral: bool,
    op: AccumOp,
    operands: &[&TensorNode],
) -> Result<Assignments, BuildError> {
    let dims = |nodes: &[&TensorNode]| nodes.iter().map(|node| node.dims_without_padding()).collect();
    let (rhs, lhs): (Result<Vec<Dims>, _>, Result<Vec<Dims>, _>) = (dims(operands), dims(targets));
    let part = |part: einsum::EinsumComponent| Accum {
        init_neutral,
        op,
        lhs: targets[part.target].clone(),
        rhs: Rhs::Copy(operands[part.operands[0]].into()),
        computed: Vec::new(),
        projections: part.projections,
        origin: Origin::default(),
    };
    let parts = einsum::resolve_parts(spec, &rhs?, &lhs?)?.into_iter().map(part).collect();
    Ok(single(ProgramStep::Concat(parts)))
}

/// Concatenates the operands along `axis` into `lhs`. On all other axes they have the dimensions of `lhs`.
///
/// # Errors
/// If there are no operands, or dimensions are unsettled or do not fit.
pub fn concat(lhs: &TensorNode, axis: usize, operands: &[&TensorNode]) -> Result<Assignments, BuildError> {
    let (whole, parts) = along(lhs, axis, operands.len())?;
    block(&format!("{parts} => {whole}"), &[lhs], false, AccumOp::Assign, operands)
}

/// Splits `operand` along `axis` into the targets: the inverse of [`concat()`].
///
/// # Errors
/// Returns the same errors as [`concat()`].
pub fn split(targets: &[&TensorNode], axis: usize, operand: &TensorNode) -> Result<Assignments, BuildError> {
    let (whole, parts) = along(operand, axis, targets.len())?;
    block(&format!("{whole} => {parts}"), targets, false, AccumOp::Assign, &[operand])
}

/// Two einsum texts: of an array whose `axis` is the concatenation of `count` axes, and of the `count` arrays
/// that have one of these axes each.
fn along(whole: &TensorNode, axis: usize, count: usize) -> Result<(String, String), BuildError> {
    let dims = whole.dims_without_padding()?;
    if axis >= dims.len() {
        return Err(tnode::TensorNodeError::NoSuchAxis { axis, dims }.into());
    }
    if count == 0 {
        return Err(BuildError::NoParts { node: whole.name() });
    }
    let with = |label: &str| -> String {
        (0..dims.len()).map(|at| if at == axis { format!("{label},") } else { format!("a{at},") }).collect()
    };
    let labels: Vec<String> = (0..count).map(|part| format!("p{part}")).collect();
    let parts: Vec<String> = labels.iter().map(|label| with(label)).collect();
    Ok((with(&labels.join("^")), parts.join(" ; ")))
}
