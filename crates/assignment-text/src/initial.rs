//! The statements that give parameters and constants their initial values.
//!
//! In an initial value, every random number without indices is one for each element: it is sampled into a
//! node of the same dimensions.

use std::collections::BTreeSet;

use tnode::{DType, TensorNode};

use crate::ast::{
    Access, Declaration, ExpandedStep, Expr, ExprKind, Fetch, Index, KeyArgument, RandomCall, Role, Statement,
};
use crate::declare::{enter_writes, sizes};
use crate::error::{Result, TextErrorKind};
use crate::linear::IndexExpr;
use crate::names::Names;
use assignments::ByteRange;
use lowered_ir::SourceText;

/// The program that gives declared nodes their initial values.
pub(crate) struct InitialValues {
    pub(crate) steps: Vec<ExpandedStep>,
    pub(crate) names: Names,
    /// The nodes that get initial values.
    pub(crate) nodes: BTreeSet<TensorNode>,
}

/// The program that gives the declared nodes their initial values, if there are any.
pub(crate) fn initial(
    declarations: &[Declaration],
    program: &Names,
    text: &SourceText,
) -> Result<Option<InitialValues>> {
    let valued = declarations.iter().filter(|declaration| declaration.initial.is_some());
    let node = |Declaration { target, .. }: &Declaration| Some(program.declared.get(&target.name)?.0.clone());
    let nodes: BTreeSet<TensorNode> = valued.filter_map(node).collect();
    if nodes.is_empty() {
        return Ok(None);
    }
    let mut names = Names { sizes: program.sizes.clone(), ..Names::default() };
    let declared = program.declared.iter();
    names.declared.extend(declared.map(|(name, (node, _))| (name.clone(), (node.clone(), Role::Param))));
    let steps = statements(declarations, &mut names)?;
    enter_writes(&steps, &mut names, text)?;
    Ok(Some(InitialValues { steps, names, nodes }))
}

/// The statements that give the declared nodes their initial values, and the nodes that they need.
fn statements(declarations: &[Declaration], names: &mut Names) -> Result<Vec<ExpandedStep>> {
    let mut statements = Vec::new();
    for declaration in declarations {
        let Some(initial) = &declaration.initial else { continue };
        let (mut value, mut samples) = (initial.value.clone(), Vec::new());
        if let Some(value) = &mut value {
            sample(value, declaration, &mut samples);
        }
        for (name, call) in samples {
            let node = sample_node(declaration, &name, names)?;
            names.made.insert(&name, node.clone());
            names.declared.insert(name.clone(), (node, Role::Param));
            let target = access(&name, 0, &declaration.span);
            statements.push(step(declaration, target, None, Some(Fetch::Random(call))));
        }
        let rank = if initial.fill.is_some() { 0 } else { declaration.sizes.len() };
        let target = access(&declaration.target.name, rank, &declaration.target.span);
        statements.push(step(declaration, target, value, initial.fill.clone()));
    }
    Ok(statements)
}

/// A node for the random numbers in an initial value, one for each element.
fn sample_node(declaration: &Declaration, name: &str, names: &Names) -> Result<TensorNode> {
    let dtype = declaration.dtype.filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
    let (dims, sizes) = sizes(declaration, names)?;
    let node = TensorNode::builder(names.label(name)).dims(dims).run_sizes(sizes).dtype(dtype).build();
    node.map_err(|error| TextErrorKind::from(error).at(&declaration.span))
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
        _ => value.children_mut().into_iter().for_each(|child| sample(child, declaration, samples)),
    }
}

/// An access to the first `rank` axes of a node, by letters that no text can have.
fn access(name: &str, rank: usize, span: &ByteRange) -> Access {
    let letter = |axis: usize| Index::Linear(IndexExpr::letter(format!("axis {axis}"), span.clone()));
    Access::indexed(name, (0..rank).map(letter).collect(), span)
}

fn step(
    declaration: &Declaration,
    target: Access,
    value: Option<Expr>,
    fetch: Option<Fetch>,
) -> ExpandedStep {
    let initial = declaration.initial.as_ref();
    let rhs_span = initial.map_or(declaration.span.clone(), |initial| initial.span.clone());
    let op_span = initial.map_or(rhs_span.clone(), |initial| initial.op_span.clone());
    let made = Statement::made(target, value, declaration.span.start..rhs_span.end, &None);
    ExpandedStep::Statement(Statement { op_span, fetch, rhs_span, is_expanded: false, ..made })
}
