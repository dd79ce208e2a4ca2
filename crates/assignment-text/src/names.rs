//! Finds nodes by name.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{Label, TensorNode};

use crate::ast::{ExpandedStep, Role, View};
use crate::error::{LocatedError, TextErrorKind};
use crate::gradient::{TextGradientError, gradient_name, parameter_name, position_in};
use crate::types::ExprType;
use assignments::Nodes;
use assignments::spelling::{similar, similar_or_nearest};
use lowered_ir::SourceText;

/// The nodes of a text by name. A whole name takes precedence over the last part of a label.
#[derive(Default)]
pub(crate) struct NodeNames {
    whole: BTreeMap<String, BTreeSet<TensorNode>>,
    last: BTreeMap<String, BTreeSet<TensorNode>>,
    /// The nodes that the text declares, by name.
    declared: BTreeMap<String, DeclaredNode>,
    /// The nodes that the text makes: declared ones, and those that the statements so far write and nothing
    /// declares.
    made: Nodes,
    /// The views by name.
    views: BTreeMap<String, View>,
    /// The names of intermediates without values so far.
    unwritten: BTreeSet<String>,
    /// The line of the first statement that writes each name.
    first_writes: BTreeMap<String, usize>,
    /// The nodes that hold numbers only, so that their element types are open, with the kind of numbers.
    literals: BTreeMap<TensorNode, ExprType>,
    /// The first parts of the labels of nodes that the text makes.
    path: Vec<String>,
}

/// A node that the text declares.
struct DeclaredNode {
    node: TensorNode,
    role: Role,
}

impl NodeNames {
    pub(crate) fn new(nodes: &[TensorNode]) -> NodeNames {
        let mut names = NodeNames::default();
        for node in nodes {
            names.whole.entry(node.name()).or_default().insert(node.clone());
            names.whole.entry(node.label().join(".")).or_default().insert(node.clone());
            names.whole.entry(text_name(node.label())).or_default().insert(node.clone());
            if let Some(part) = node.label().last() {
                names.last.entry(part.clone()).or_default().insert(node.clone());
            }
        }
        names
    }

    /// Finds each node under its name in the table alone, whatever its label.
    pub(crate) fn named(nodes: &Nodes) -> NodeNames {
        let whole = nodes.by_name().map(|(name, node)| (name.to_owned(), BTreeSet::from([node.clone()])));
        NodeNames { whole: whole.collect(), ..NodeNames::default() }
    }

    /// Makes the labels of nodes that the text makes start with these parts.
    pub(crate) fn within(self, path: &[String]) -> NodeNames {
        NodeNames { path: path.to_vec(), ..self }
    }

    /// The label of a node that the text makes under this name: the parts of the name behind the path. A
    /// gradient is marked by a first part `grad`.
    pub(crate) fn label(&self, name: &str) -> Label {
        let parameter = parameter_name(name);
        let mark = parameter.is_some().then_some("grad");
        let parts = parameter.as_deref().unwrap_or(name).split('.');
        mark.into_iter().chain(self.path.iter().map(String::as_str)).chain(parts).collect()
    }

    /// Records which statement writes each name first, for errors about reads before it.
    pub(crate) fn expect_writes(&mut self, steps: &[ExpandedStep], text: &SourceText) {
        let (mut line, mut at) = (1, 0);
        for step in steps {
            let start = step.span().start;
            // The functions of the prelude stand behind the user's text.
            if (at..text.user_text().len()).contains(&start) {
                line += text.get(at..start).map_or(0, |between| between.matches('\n').count());
                at = start;
            }
            let written: Vec<String> = match step {
                ExpandedStep::Statement(statement) => {
                    statement.lhs.iter().map(|target| target.name.clone()).collect()
                }
                ExpandedStep::Gradient(gradient) => {
                    let parameters = gradient.parameters.iter();
                    let members = parameters.flat_map(|parameter| self.members(&parameter.name));
                    members.map(|parameter| gradient_name(&parameter)).collect()
                }
                ExpandedStep::Detach(_) => Vec::new(),
            };
            for name in written {
                self.first_writes.entry(name).or_insert(line);
            }
        }
    }

    /// The names of the given and declared nodes of a family, in order; the name itself if a node has it, or
    /// if there is no such family.
    pub(crate) fn members(&self, name: &str) -> Vec<String> {
        if self.has(name) {
            return vec![name.to_owned()];
        }
        let member = |member: &String| Some((position_in(name, member)?, member.clone()));
        let members: BTreeMap<Vec<u64>, String> =
            self.whole.keys().chain(self.declared.keys()).filter_map(member).collect();
        match members.is_empty() {
            true => vec![name.to_owned()],
            false => members.into_values().collect(),
        }
    }

    /// Adds a view.
    pub(crate) fn add_view(&mut self, view: View) -> Result<(), LocatedError> {
        let name = view.target.name.clone();
        if self.has(&name) {
            return Err(TextErrorKind::DefinedTwice { what: "name", name }.at(view.target.name_span));
        }
        self.views.insert(name, view);
        Ok(())
    }

    /// The view of that name, if the name is that of a view.
    pub(crate) fn view(&self, name: &str) -> Option<&View> {
        self.views.get(name)
    }

    /// The name of the node that a view reads, through other views.
    pub(crate) fn viewed<'a>(&'a self, view: &'a View) -> Result<&'a str, LocatedError> {
        let mut of = &view.of;
        for _ in 0..=self.views.len() {
            match self.views.get(&of.name) {
                Some(view) => of = &view.of,
                None => return Ok(&of.name),
            }
        }
        let name = view.target.name.clone();
        Err(TextErrorKind::ViewCycle { name }.at(view.target.name_span.clone()))
    }

    /// Adds a node that a statement writes and nothing declares. It has no values yet.
    pub(crate) fn add_intermediate(&mut self, name: &str, node: TensorNode) {
        self.made.insert(name, node);
        self.unwritten.insert(name.to_owned());
    }

    /// Records that the text declares a given node.
    pub(crate) fn declare_given(&mut self, name: &str, node: TensorNode, role: Role) {
        self.declared.insert(name.to_owned(), DeclaredNode { node, role });
    }

    /// Adds a node that a declaration of the text makes.
    pub(crate) fn declare_made(&mut self, name: &str, node: TensorNode, role: Role) {
        if role == Role::Node {
            self.unwritten.insert(name.to_owned());
        }
        self.made.insert(name, node.clone());
        self.declare_given(name, node, role);
    }

    /// The declared nodes alone, all in one role.
    pub(crate) fn declared_as(&self, role: Role) -> NodeNames {
        let mut names = NodeNames::default();
        for (name, declared) in &self.declared {
            names.declare_given(name, declared.node.clone(), role);
        }
        names
    }

    pub(crate) fn is_declared(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    /// The role of the declared node of that name.
    pub(crate) fn role(&self, name: &str) -> Option<Role> {
        self.declared.get(name).map(|declared| declared.role)
    }

    /// Whether the node of that name is an intermediate without values so far.
    pub(crate) fn is_unwritten(&self, name: &str) -> bool {
        self.unwritten.contains(name)
    }

    /// Records that a statement has written the node of that name. Returns whether it is the first one that
    /// writes an intermediate.
    pub(crate) fn set_written(&mut self, name: &str) -> bool {
        self.unwritten.remove(name)
    }

    /// The nodes that the text has made so far, by name.
    pub(crate) fn made(&self) -> &Nodes {
        &self.made
    }

    /// The kind of the numbers in a node whose element type is open.
    pub(crate) fn literals(&self, node: &TensorNode) -> Option<ExprType> {
        self.literals.get(node).copied()
    }

    /// Records the kind of the numbers in a node. `None` records that the element type is settled.
    pub(crate) fn set_literals(&mut self, node: &TensorNode, literals: Option<ExprType>) {
        match literals {
            Some(literals) => self.literals.insert(node.clone(), literals),
            None => self.literals.remove(node),
        };
    }

    /// The nodes whose element types are open.
    pub(crate) fn open_nodes(&self) -> impl Iterator<Item = &TensorNode> {
        self.literals.keys()
    }

    /// The error for a read of a node that no earlier statement writes and nothing declares.
    pub(crate) fn not_written(&self, name: &str) -> TextErrorKind {
        let name = name.to_owned();
        match self.first_writes.get(&name) {
            Some(&line) => TextErrorKind::ReadBeforeWritten { name, line: Some(line) },
            None if self.is_declared(&name) => TextErrorKind::ReadBeforeWritten { name, line: None },
            None if self.is_gradient(&name) => {
                let parameter = parameter_name(&name).unwrap_or_default();
                TextGradientError::NotComputed { name, parameter }.into()
            }
            None => {
                let near = similar_or_nearest(&name, self.names().map(str::to_owned));
                TextErrorKind::UnknownNode { name, near }
            }
        }
    }

    /// Whether the name is that of the gradient of a node.
    fn is_gradient(&self, name: &str) -> bool {
        parameter_name(name).is_some_and(|parameter| self.has(&parameter))
    }

    /// The names of nodes other than `name` within a few edits of it, the nearest first. Names of one or two
    /// characters are all similar, so they have none.
    pub(crate) fn similar_to(&self, name: &str) -> Vec<String> {
        if name.chars().count() < 3 {
            return Vec::new();
        }
        similar(name, self.names().filter(|other| *other != name).map(str::to_owned))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.whole.keys().map(String::as_str).chain(self.made.by_name().map(|(name, _)| name))
    }

    /// Whether some node has that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_given = self.whole.contains_key(name) || self.last.contains_key(name);
        is_given || self.made.get(name).is_some() || self.is_declared(name) || self.views.contains_key(name)
    }

    /// Whether the only node of that name is an integer without axes.
    pub(crate) fn has_integer(&self, name: &str) -> bool {
        let node = self.has(name).then(|| self.find(name).ok()).flatten();
        node.is_some_and(|node| {
            node.dtype().is_integer() && node.dims_without_padding().is_ok_and(|dims| dims.is_empty())
        })
    }

    /// The only node of that name.
    pub(crate) fn find(&self, name: &str) -> Result<TensorNode, TextErrorKind> {
        if self.views.contains_key(name) {
            return Err(TextErrorKind::ViewUse { name: name.to_owned() });
        }
        let declared = self.declared.get(name).map(|declared| &declared.node);
        if let Some(node) = declared.or_else(|| self.made.get(name)) {
            return Ok(node.clone());
        }
        let Some(found) = self.whole.get(name).or_else(|| self.last.get(name)) else {
            return Err(self.not_written(name));
        };
        let mut nodes = found.iter();
        match (nodes.next(), nodes.next()) {
            (Some(node), None) => Ok(node.clone()),
            _ => Err(TextErrorKind::AmbiguousNode {
                name: name.to_owned(),
                nodes: found.iter().map(described).collect(),
            }),
        }
    }
}

/// The name of a node with that label in a text: the inverse of [`NodeNames::label`] without a path.
pub(crate) fn text_name(label: &[String]) -> String {
    match label {
        [grad, parameter @ ..] if grad == "grad" && !parameter.is_empty() => {
            gradient_name(&parameter.join("."))
        }
        parts => parts.join("."),
    }
}

/// The name of a node in a text: `h[0]` for a node of a family, whose name for messages may be another.
pub(crate) fn written(node: &TensorNode) -> String {
    let is_number = |part: &String| part.bytes().all(|byte| byte.is_ascii_digit());
    match node.label() {
        [name, positions @ ..] if !positions.is_empty() && positions.iter().all(is_number) => {
            format!("{name}[{}]", positions.join(", "))
        }
        _ => node.name(),
    }
}

fn described(node: &TensorNode) -> String {
    format!("{} (label {:?})", node.id(), node.label().join("."))
}
