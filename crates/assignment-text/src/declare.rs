//! Declarations in a text: the nodes that they make, and the statements that give parameters and constants
//! their initial values.
//!
//! A declaration of a name that a given node has is a check of that node: dimensions and element type must be
//! equal, and open ones are settled. Otherwise the declaration makes a node. Inputs, parameters and constants
//! have memory that outlives a run; a node declared as `node` is an intermediate whose type and dimensions
//! are stated.
//!
//! In an initial value, every random number without indices is one for each element: it is sampled into a
//! node of the same dimensions.

use std::collections::BTreeSet;

use tnode::{DType, Label, MemoryMode, Reason, TensorNode};

use crate::ast::{
    Access, Declaration, ExpandedStep, Expr, ExprKind, Fetch, Index, KeyArgument, RandomCall, Role, Statement,
};
use crate::error::{LocatedError, TextError, TextErrorKind};
use crate::linear::IndexExpr;
use crate::names::NodeNames;
use crate::parse;
use assignments::ByteRange;
use assignments::{AccumOp, Assignments, Nodes};
use lowered_ir::SourceText;
use lowered_ir::stack::with_enough;

/// Makes nodes from declarations such as `x f32[32, 64]; w f32[64, 10]`, separated by semicolons, commas
/// or newlines. A node without a type, `y[32, 10]`, has the type that its first use gives it; one without
/// sizes has rank 0.
///
/// # Errors
/// If the text is no list of declarations, declares a name twice, or a node would be too large. The error
/// points into the text.
pub fn parse_nodes(declarations: &str) -> Result<Nodes, TextError> {
    let made = with_enough(|| {
        let mut nodes = Nodes::default();
        for declaration in parse::declarations(declarations)? {
            let name = &declaration.target.name;
            if nodes.get(name).is_some() {
                return Err(declared_twice(&declaration));
            }
            nodes.insert(name, make(&declaration, &NodeNames::default())?);
        }
        Ok(nodes)
    });
    made.map_err(|error| TextError::new(error, &declarations.into()))
}

/// Enters the declared nodes into `names`, and checks the given nodes among them.
pub(crate) fn declare(declarations: &[Declaration], names: &mut NodeNames) -> Result<(), LocatedError> {
    for declaration in declarations {
        let Access { name, name_span, .. } = &declaration.target;
        if names.is_declared(name) {
            return Err(declared_twice(declaration));
        }
        if names.has(name) {
            let node = names.find(name).map_err(|kind| kind.at(name_span.clone()))?;
            check(declaration, &node)?;
            names.declare_given(name, node, declaration.role);
        } else {
            let node = make(declaration, names)?;
            names.declare_made(name, node, declaration.role);
        }
    }
    Ok(())
}

/// Makes the declared inputs, parameters and constants.
pub(crate) fn lasting_nodes(declarations: &[Declaration]) -> Result<Nodes, LocatedError> {
    let mut names = NodeNames::default();
    declare(declarations, &mut names)?;
    let mut nodes = Nodes::default();
    for declaration in declarations.iter().filter(|declaration| declaration.role != Role::Node) {
        let name = &declaration.target.name;
        nodes.insert(name, names.find(name).map_err(|kind| kind.at(declaration.span.clone()))?);
    }
    Ok(nodes)
}

/// The program that gives the declared nodes their initial values, if there are any.
pub(crate) fn initial(
    declarations: &[Declaration],
    names: &NodeNames,
    text: &SourceText,
) -> Result<Option<Assignments>, LocatedError> {
    let valued = declarations.iter().filter(|declaration| declaration.initial.is_some());
    let node = |Declaration { target, .. }: &Declaration| {
        names.find(&target.name).map_err(|kind| kind.at(target.name_span.clone()))
    };
    let nodes = valued.map(node).collect::<Result<BTreeSet<TensorNode>, _>>()?;
    if nodes.is_empty() {
        return Ok(None);
    }
    let mut names = names.declared_as(Role::Param);
    let statements = initial_statements(declarations, &mut names)?;
    let mut steps: Vec<ExpandedStep> = statements.into_iter().map(ExpandedStep::Statement).collect();
    let mut assignments = Assignments::default();
    crate::read(&mut steps, names, text, &mut assignments)?;
    assignments.kept = nodes;
    Ok(Some(assignments.named("initialise")))
}

fn declared_twice(declaration: &Declaration) -> LocatedError {
    let Access { name, name_span, .. } = &declaration.target;
    TextErrorKind::DefinedTwice { what: "node", name: name.clone() }.at(name_span.clone())
}

fn make(declaration: &Declaration, names: &NodeNames) -> Result<TensorNode, LocatedError> {
    let builder = TensorNode::builder(names.label(&declaration.target.name)).dims(sizes(declaration)?);
    let builder = match declaration.dtype {
        Some(dtype) => builder.dtype(dtype),
        None => builder,
    };
    let builder = match declaration.role {
        Role::Node => builder,
        role => {
            let reason = Reason::new(format!("the text declares it as `{role}`"));
            builder.mode_because(MemoryMode::Materialized, reason)
        }
    };
    builder.build().map_err(|error| TextErrorKind::from(error).at(declaration.span.clone()))
}

/// Checks that a given node is as declared.
fn check(declaration: &Declaration, node: &TensorNode) -> Result<(), LocatedError> {
    let located = |kind: TextErrorKind| kind.at(declaration.span.clone());
    let sizes = sizes(declaration)?;
    if let Some(dtype) = declaration.dtype {
        node.update_dtype(dtype).map_err(|error| located(error.into()))?;
    }
    node.set_dims(sizes).map_err(|error| located(error.into()))
}

fn sizes(declaration: &Declaration) -> Result<Vec<usize>, LocatedError> {
    let size = |size: &IndexExpr| match size.integer()? {
        Some(number) => usize::try_from(number).map_err(|_| {
            let (expected, found) = ("a size of 0 or more".to_owned(), format!("`{number}`"));
            TextErrorKind::Syntax { expected, found }.at(size.span.clone())
        }),
        None => {
            let (expected, found) = ("a number".to_owned(), format!("`{size}`"));
            Err(TextErrorKind::Syntax { expected, found }.at(size.span.clone()))
        }
    };
    declaration.sizes.iter().map(size).collect()
}

/// The statements that give the declared nodes their initial values, and the nodes that they need.
fn initial_statements(
    declarations: &[Declaration],
    names: &mut NodeNames,
) -> Result<Vec<Statement>, LocatedError> {
    let mut statements = Vec::new();
    for declaration in declarations {
        let Some(initial) = &declaration.initial else { continue };
        let (mut value, mut samples) = (initial.value.clone(), Vec::new());
        if let Some(value) = &mut value {
            sample(value, declaration, &mut samples);
        }
        for (name, call) in samples {
            let node = sample_node(declaration, names.label(&name))?;
            names.declare_made(&name, node, Role::Param);
            let target = access(&name, 0, &declaration.span);
            statements.push(statement(declaration, target, None, Some(Fetch::Random(call))));
        }
        let rank = if initial.fill.is_some() { 0 } else { declaration.sizes.len() };
        let target = access(&declaration.target.name, rank, &declaration.target.span);
        statements.push(statement(declaration, target, value, initial.fill.clone()));
    }
    Ok(statements)
}

/// A node for the random numbers in an initial value, one for each element.
fn sample_node(declaration: &Declaration, label: Label) -> Result<TensorNode, LocatedError> {
    let dtype = declaration.dtype.filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
    let node = TensorNode::builder(label).dims(sizes(declaration)?).dtype(dtype).build();
    node.map_err(|error| TextErrorKind::from(error).at(declaration.span.clone()))
}

/// Whether a call of a random function may fill a node: it has no indices.
fn is_fill(call: &RandomCall) -> bool {
    call.parts.iter().all(|part| match part {
        KeyArgument::SelfId(_) => true,
        KeyArgument::Index(index) => matches!(index.integer(), Ok(Some(_))),
        KeyArgument::Row(_) => false,
    })
}

/// Replaces the random numbers in a value by elements of nodes, whose names and calls are added to `samples`.
fn sample(value: &mut Expr, declaration: &Declaration, samples: &mut Vec<(String, RandomCall)>) {
    match &mut value.kind {
        ExprKind::Random(call) if is_fill(call) => {
            let name = format!("{}.initial.{}", declaration.target.name, samples.len() + 1);
            let read = access(&name, declaration.sizes.len(), &value.span);
            samples.push((name, (**call).clone()));
            value.kind = ExprKind::Access(Box::new(read));
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => sample(a, declaration, samples),
        ExprKind::Binary(_, a, b) | ExprKind::Exchanged(_, a, b) => {
            sample(a, declaration, samples);
            sample(b, declaration, samples);
        }
        ExprKind::Ternary(_, args) => args.iter_mut().for_each(|arg| sample(arg, declaration, samples)),
        _ => {}
    }
}

/// An access to the first `rank` axes of a node, by letters that no text can have.
fn access(name: &str, rank: usize, span: &ByteRange) -> Access {
    let letter = |axis: usize| Index::Linear(IndexExpr::letter(format!("axis {axis}"), span.clone()));
    let (name_span, span) = (span.clone(), span.clone());
    let indices = (0..rank).map(letter).collect();
    Access { name: name.to_owned(), name_span, family: Vec::new(), merge: false, indices, span }
}

fn statement(
    declaration: &Declaration,
    target: Access,
    value: Option<Expr>,
    fetch: Option<Fetch>,
) -> Statement {
    let initial = declaration.initial.as_ref();
    let span = initial.map_or(declaration.span.clone(), |initial| initial.span.clone());
    Statement {
        lhs: vec![target],
        op: AccumOp::Assign,
        init: false,
        op_span: initial.map_or(span.clone(), |initial| initial.op_span.clone()),
        rhs: value.into_iter().collect(),
        fetch,
        rhs_span: span.clone(),
        constraints: Vec::new(),
        span: declaration.span.start..span.end,
        is_expanded: false,
        frame: None,
    }
}
