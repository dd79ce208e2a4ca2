//! The names of a program: declared nodes, views, and the nodes that steps write.
//!
//! A declaration of a name that a given node has is a check of that node: dimensions and element type must be
//! equal, and open ones are settled. Otherwise the declaration makes a node. Inputs, parameters and constants
//! have memory that outlives a run; a node declared as `node` is an intermediate whose type and dimensions
//! are stated. A name that a step writes and nothing declares is an intermediate too.

use std::collections::BTreeMap;

use tnode::{Dims, MemoryMode, Reason, RunSize, RunSizes, TensorNode};

use crate::ast::{Access, Declaration, ExpandedStep, Role};
use crate::error::{LocatedError, Result, TextError, TextErrorKind, expected};
use crate::expand::Expanded;
use crate::linear::{Atom, IndexExpr, IndexExprKind};
use crate::names::{FirstWrite, GivenNodes, Names, NamesAt, gradient_name};
use crate::parse;
use crate::source::excerpt;
use assignments::{ByteRange, Nodes};
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
            nodes.insert(name, make(&declaration, &Names::default())?);
        }
        Ok(nodes)
    });
    made.map_err(|error| TextError::new(error, &declarations.into()))
}

/// Builds the names of an expanded program over the given nodes, and makes the nodes that only the text has.
pub(crate) fn declare(
    expanded: &Expanded,
    given: GivenNodes,
    path: &[String],
    text: &SourceText,
) -> Result<Names> {
    let mut names = Names { given, path: path.to_vec(), sizes: run_sizes(expanded), ..Names::default() };
    enter_declared(&expanded.declarations, &mut names)?;
    for view in &expanded.views {
        let name = view.target.name.clone();
        if names.before(0).has(&name) {
            return Err(TextErrorKind::DefinedTwice { what: "name", name }.at(&view.target.name_span));
        }
        names.views.insert(name, view.clone());
    }
    enter_writes(&expanded.steps, &mut names, text)?;
    Ok(names)
}

/// Enters the declared nodes into `names`, and checks the given nodes among them.
fn enter_declared(declarations: &[Declaration], names: &mut Names) -> Result<()> {
    for declaration in declarations {
        let Access { name, name_span, .. } = &declaration.target;
        if names.declared.contains_key(name) {
            return Err(declared_twice(declaration));
        }
        let given = names.given.has(name).then(|| names.before(0).find(name));
        let node = match given {
            Some(node) => {
                let node = node.map_err(|kind| kind.at(name_span))?;
                check(declaration, &node, names)?;
                node
            }
            None => {
                let node = make(declaration, names)?;
                names.made.insert(name, node.clone());
                node
            }
        };
        names.declared.insert(name.clone(), (node, declaration.role));
    }
    Ok(())
}

/// Enters the names that steps write, and makes the nodes that nothing declares. Later passes find their
/// dimensions and types.
pub(crate) fn enter_writes(steps: &[ExpandedStep], names: &mut Names, text: &SourceText) -> Result<()> {
    let (mut line, mut at) = (1, 0);
    for (step, source) in steps.iter().enumerate() {
        let start = source.span().start;
        // The functions of the prelude stand behind the user's text.
        if (at..text.user_text().len()).contains(&start) {
            line += text.get(at..start).map_or(0, |between| between.matches('\n').count());
            at = start;
        }
        for WrittenName { name, shown, access, span } in written_names(source, names.before(step), text) {
            if names.write_of.contains_key(&name) {
                continue;
            }
            let frame = source.frame();
            if !names.before(step).has(&name) && !access.merge {
                let node = TensorNode::builder(names.label(&name)).dims_later().build();
                let located = |error| TextErrorKind::from(error).at(&access.span).within(frame);
                names.made.insert(&name, node.map_err(located)?);
            }
            let is_intermediate = match names.declared.get(&name) {
                Some((_, role)) => *role == Role::Node && names.made.get(&name).is_some(),
                None => names.made.get(&name).is_some(),
            };
            let (node, frame) = (names.at(step).find(&name).ok(), frame.clone());
            names.write_of.insert(name, names.writes.len());
            names.writes.push(FirstWrite { shown, step, line, node, is_intermediate, span, frame });
        }
    }
    Ok(())
}

/// A name that a step writes, as errors show it, with the access and the byte range that say so.
struct WrittenName<'a> {
    name: String,
    shown: String,
    access: &'a Access,
    span: ByteRange,
}

fn written_names<'a>(step: &'a ExpandedStep, names: NamesAt<'_>, text: &str) -> Vec<WrittenName<'a>> {
    match step {
        ExpandedStep::Statement(statement) => {
            let target = |access: &'a Access| WrittenName {
                name: access.name.clone(),
                shown: excerpt(text, &access.name_span).to_owned(),
                access,
                span: access.name_span.clone(),
            };
            statement.lhs.iter().map(target).collect()
        }
        ExpandedStep::Gradient(gradient) => {
            let members = |access: &'a Access| {
                let names = names.members(&access.name).into_iter().map(|name| gradient_name(&name));
                names.map(|name| WrittenName { shown: name.clone(), name, access, span: access.span.clone() })
            };
            gradient.parameters.iter().flat_map(members).collect()
        }
        ExpandedStep::Detach(_) | ExpandedStep::ScanStart(_) | ExpandedStep::ScanEnd(_) => Vec::new(),
    }
}

/// Makes the declared inputs, parameters and constants.
pub(crate) fn lasting_nodes(expanded: &Expanded) -> Result<Nodes> {
    let mut names = Names { sizes: run_sizes(expanded), ..Names::default() };
    enter_declared(&expanded.declarations, &mut names)?;
    let lasting = expanded.declarations.iter().filter(|declaration| declaration.role != Role::Node);
    let mut nodes = Nodes::default();
    nodes.extend(lasting.filter_map(|declaration| {
        let name = &declaration.target.name;
        Some((name, names.made.get(name)?.clone()))
    }));
    Ok(nodes)
}

fn declared_twice(declaration: &Declaration) -> LocatedError {
    let Access { name, name_span, .. } = &declaration.target;
    TextErrorKind::DefinedTwice { what: "node", name: name.clone() }.at(name_span)
}

fn make(declaration: &Declaration, names: &Names) -> Result<TensorNode> {
    let (dims, sizes) = sizes(declaration, names)?;
    let builder = TensorNode::builder(names.label(&declaration.target.name)).dims(dims).run_sizes(sizes);
    let builder = match declaration.dtype {
        Some(dtype) => builder.dtype(dtype),
        None => builder,
    };
    let builder = match declaration.role {
        Role::Node => builder,
        role => {
            let reason = Reason::new(format!("the text declares it as `{}`", role.token()));
            builder.mode_because(MemoryMode::Materialized, reason)
        }
    };
    builder.build().map_err(|error| TextErrorKind::from(error).at(&declaration.span))
}

/// Checks that a given node is as declared.
fn check(declaration: &Declaration, node: &TensorNode, names: &Names) -> Result<()> {
    let located = |kind: TextErrorKind| kind.at(&declaration.span);
    let (dims, sizes) = sizes(declaration, names)?;
    if let Some(dtype) = declaration.dtype {
        node.update_dtype(dtype).map_err(|error| located(error.into()))?;
    }
    node.set_dims_with(dims, sizes).map_err(|error| located(error.into()))
}

fn run_sizes(expanded: &Expanded) -> BTreeMap<String, RunSize> {
    expanded.sizes.iter().map(|declared| (declared.size.name().to_owned(), declared.size.clone())).collect()
}

/// The dimensions of a declared node, and the sizes that a run gives.
pub(crate) fn sizes(declaration: &Declaration, names: &Names) -> Result<(Dims, RunSizes)> {
    let mut found = (Dims::new(), RunSizes::new());
    for size in &declaration.sizes {
        let (dim, name) = axis_size(size, names)?;
        found.0.push(dim);
        found.1.push(name);
    }
    Ok(found)
}

/// The dimension that an expanded size gives an axis, and the name of a size that a run gives.
pub(crate) fn axis_size(size: &IndexExpr, names: &Names) -> Result<(usize, Option<RunSize>)> {
    if let IndexExprKind::Atom(Atom::Symbol(name)) = &size.kind
        && let Some(size) = names.sizes.get(name.as_str())
    {
        return Ok((size.bound(), Some(size.clone())));
    }
    match size.integer()? {
        Some(number) => match usize::try_from(number) {
            Ok(number) => Ok((number, None)),
            Err(_) => Err(expected("a size of 0 or more", format!("`{number}`"), &size.span)),
        },
        None => Err(expected("a number", format!("`{size}`"), &size.span)),
    }
}
