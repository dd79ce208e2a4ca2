//! Building assignments without text.
//!
//! ```
//! use lowered_ir::assign::{AccumOp, builder};
//! use lowered_ir::ir::BinaryOp;
//! use tnode::TensorNode;
//!
//! let node = |name, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build();
//! let (a, b, c) = (node("a", &[4, 8])?, node("b", &[8, 2])?, node("c", &[4, 2])?);
//! let matmul = builder::einsum("m,k; k,n => m,n", &c, AccumOp::Add, BinaryOp::Mul, [&a, &b])?;
//! assert_eq!(matmul.to_string(), "c[i0, i1] =:+ a[i0, i2] * b[i2, i1];\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use tnode::{Dims, TensorNode};

use super::{Accum, AccumOp, Assignments, FetchOp, Operand, Rhs, Step};
use crate::indexing::einsum::{self, SpecError};
use crate::indexing::{IndexError, Indexed, Projection, Projections, StaticSymbol, identity_projections};
use crate::ir::{BinaryOp, TernaryOp, UnaryOp};

/// Assignments that could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The sizes of a node are not settled.
    #[error(transparent)]
    Node(#[from] tnode::Error),
    /// The indices do not fit the nodes.
    #[error("assignment to node {node}: {source}")]
    Index {
        /// The name of the node written.
        node: String,
        /// What does not fit.
        source: IndexError,
    },
    /// The einsum text is wrong or does not fit the nodes.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Operands of a pointwise operation differ in size.
    #[error("node {operand} has dimensions {found:?}, expected {expected:?} as node {lhs} has")]
    Shape {
        /// The operand's name.
        operand: String,
        /// Its dimensions.
        found: Vec<usize>,
        /// The name of the node written.
        lhs: String,
        /// Its dimensions.
        expected: Vec<usize>,
    },
}

/// One step as a program.
fn single(step: Step) -> Assignments {
    Assignments { symbols: Vec::new(), steps: vec![step] }
}

/// Fills `node` with `op`.
pub fn fetch(node: &TensorNode, op: FetchOp) -> Assignments {
    single(Step::Fetch { node: node.clone(), op })
}

/// Fills `node` with one number.
pub fn constant(node: &TensorNode, value: f64) -> Assignments {
    fetch(node, FetchOp::Constant(value))
}

/// Fills `node` with the value of a static symbol.
pub fn embed_symbol(node: &TensorNode, symbol: &StaticSymbol) -> Assignments {
    let mut assignments = Assignments::default();
    let op = FetchOp::EmbedSymbol(assignments.symbol(symbol));
    assignments.steps.push(Step::Fetch { node: node.clone(), op });
    assignments
}

/// `lhs := op(operand)`, element by element.
///
/// # Errors
/// When dimensions are unsettled or differ.
pub fn unary(lhs: &TensorNode, op: UnaryOp, operand: &TensorNode) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Unary(op, operand.into()))
}

/// `lhs := a op b`, element by element.
///
/// # Errors
/// When dimensions are unsettled or differ.
pub fn binary(lhs: &TensorNode, op: BinaryOp, operands: [&TensorNode; 2]) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Binary(op, operands.map(Operand::from)))
}

/// `lhs := op(a, b, c)`, element by element.
///
/// # Errors
/// When dimensions are unsettled or differ.
pub fn ternary(
    lhs: &TensorNode,
    op: TernaryOp,
    operands: [&TensorNode; 3],
) -> Result<Assignments, BuildError> {
    pointwise(lhs, Rhs::Ternary(op, operands.map(Operand::from)))
}

/// `lhs := operand`, element by element; a constant fills.
///
/// # Errors
/// When dimensions are unsettled or differ.
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

/// The dimensions of the array an operand is an element of; `None` for constants.
fn dims_of(operand: &Operand) -> Result<Option<Dims>, BuildError> {
    match operand {
        Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => {
            Ok(Some(node.dims_without_padding()?))
        }
        Operand::Constant(_) | Operand::Index(_) => Ok(None),
    }
}

fn name_of(operand: &Operand) -> String {
    match operand {
        Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => node.name(),
        Operand::Constant(value) => value.to_string(),
        Operand::Index(dtype) => format!("index of type {dtype}"),
    }
}

/// The general form: any operation over any projections. Lowering checks that they fit the nodes.
pub fn accumulate(
    init_neutral: bool,
    op: AccumOp,
    lhs: &TensorNode,
    rhs: Rhs,
    projections: Projections,
) -> Assignments {
    single(Step::Accum(Box::new(Accum { init_neutral, op, lhs: lhs.clone(), rhs, projections })))
}

/// `lhs` starts from the neutral element of `accum` and accumulates `a op b` as the einsum text says; see
/// [`einsum`](mod@crate::indexing::einsum) for its grammar.
///
/// # Errors
/// When the text is wrong, the nodes do not fit it, or dimensions are unsettled.
pub fn einsum(
    spec: &str,
    lhs: &TensorNode,
    accum: AccumOp,
    op: BinaryOp,
    operands: [&TensorNode; 2],
) -> Result<Assignments, BuildError> {
    einsum_of(spec, lhs, accum, Rhs::Binary(op, operands.map(Operand::from)))
}

/// `lhs` starts from the neutral element of `accum` and accumulates the elements of one operand as the einsum text says.
///
/// # Errors
/// As for [`einsum`](fn@einsum).
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
    Ok(accumulate(true, accum, lhs, rhs, resolved.projections))
}
