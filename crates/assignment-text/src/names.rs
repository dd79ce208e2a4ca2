//! The names of a program: built once, by [`declare`](crate::declare), and read by the passes behind it.
//!
//! What a name means depends on the step that mentions it: a node that only the text has exists from the
//! first step on that writes it. So passes look names up in a [`NamesAt`], the names as one step sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::{DType, Label, RunSize, TensorNode};

use crate::ast::{Role, View};
use crate::error::{Result, TextErrorKind, TextGradientError};
use crate::source::Frame;
use assignments::spelling::{similar, similar_or_nearest};
use assignments::{ByteRange, Nodes};

/// The nodes that the caller gives, by name. A whole name takes precedence over the last part of a label.
#[derive(Default)]
pub(crate) struct GivenNodes {
    whole: BTreeMap<String, BTreeSet<TensorNode>>,
    last: BTreeMap<String, BTreeSet<TensorNode>>,
    /// Whether a range that is the bound of a size is that size.
    pub(crate) bounds_are_sizes: bool,
}

impl GivenNodes {
    pub(crate) fn new(nodes: &[TensorNode]) -> GivenNodes {
        let mut given = GivenNodes::default();
        for node in nodes {
            for name in [node.name(), node.label().join("."), text_name(node.label())] {
                given.whole.entry(name).or_default().insert(node.clone());
            }
            if let Some(part) = node.label().last() {
                given.last.entry(part.clone()).or_default().insert(node.clone());
            }
        }
        given
    }

    pub(crate) fn with_bounds_as_sizes(self, bounds_are_sizes: bool) -> GivenNodes {
        GivenNodes { bounds_are_sizes, ..self }
    }

    /// Finds each node under its name in the table alone, whatever its label.
    pub(crate) fn named(nodes: &Nodes) -> GivenNodes {
        let whole = nodes.by_name().map(|(name, node)| (name.to_owned(), BTreeSet::from([node.clone()])));
        GivenNodes { whole: whole.collect(), ..GivenNodes::default() }
    }

    /// Whether some node has that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&BTreeSet<TensorNode>> {
        self.whole.get(name).or_else(|| self.last.get(name))
    }
}

/// The names of a program.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) given: GivenNodes,
    /// The nodes that the text declares, with their roles.
    pub(crate) declared: BTreeMap<String, (TensorNode, Role)>,
    /// The nodes that the text makes: declared ones, and those that steps write and nothing declares.
    pub(crate) made: Nodes,
    pub(crate) views: BTreeMap<String, View>,
    /// The first write of each name, in order.
    pub(crate) writes: Vec<FirstWrite>,
    /// The position of each name among the first writes.
    pub(crate) write_of: BTreeMap<String, usize>,
    /// The first parts of the labels of nodes that the text makes.
    pub(crate) path: Vec<String>,
    /// The sizes that a run gives and those that follow from them, by the names of their symbols.
    pub(crate) sizes: BTreeMap<String, RunSize>,
}

/// The first step that writes a name.
pub(crate) struct FirstWrite {
    /// The name as errors show it.
    pub(crate) shown: String,
    /// The position of the step, and its line in the user's text.
    pub(crate) step: usize,
    pub(crate) line: usize,
    /// The node, unless the name is ambiguous.
    pub(crate) node: Option<TensorNode>,
    /// Whether no value of the node comes from elsewhere.
    pub(crate) is_intermediate: bool,
    /// The byte range of the name, or of the parameter of a gradient.
    pub(crate) span: ByteRange,
    /// The call or repetition that the step belongs to.
    pub(crate) frame: Option<Arc<Frame>>,
}

impl Names {
    /// The names as the step at a position sees them, with the nodes that it makes.
    pub(crate) fn at(&self, step: usize) -> NamesAt<'_> {
        NamesAt { names: self, written: step, made: step.saturating_add(1) }
    }

    /// The names as the step at a position sees them, without the nodes that it makes.
    pub(crate) fn before(&self, step: usize) -> NamesAt<'_> {
        NamesAt { names: self, written: step, made: step }
    }

    /// The names behind the last step.
    pub(crate) fn at_end(&self) -> NamesAt<'_> {
        self.at(usize::MAX)
    }

    /// The label of a node that the text makes under this name: the parts of the name behind the path. A
    /// gradient is marked by a first part `grad`.
    pub(crate) fn label(&self, name: &str) -> Label {
        let parameter = parameter_name(name);
        let mark = parameter.is_some().then_some("grad");
        let parts = parameter.as_deref().unwrap_or(name).split('.');
        mark.into_iter().chain(self.path.iter().map(String::as_str)).chain(parts).collect()
    }

    /// The first writes of nodes whose values come from nowhere else, in order.
    pub(crate) fn intermediates(&self) -> impl Iterator<Item = &FirstWrite> {
        self.writes.iter().filter(|write| write.is_intermediate)
    }

    /// Whether a step before the one at a position writes the node.
    pub(crate) fn is_written_before(&self, node: &TensorNode, step: usize) -> bool {
        self.writes
            .iter()
            .take_while(|write| write.step < step)
            .any(|write| write.node.as_ref() == Some(node))
    }

    fn write(&self, name: &str) -> Option<&FirstWrite> {
        self.write_of.get(name).map(|&at| &self.writes[at])
    }
}

/// The names of a program as one of its steps sees them.
#[derive(Clone, Copy)]
pub(crate) struct NamesAt<'a> {
    names: &'a Names,
    /// Nodes that the steps before this position write have values.
    written: usize,
    /// Nodes that the steps before this position make exist.
    made: usize,
}

impl<'a> NamesAt<'a> {
    /// The names of the whole program.
    pub(crate) fn names(self) -> &'a Names {
        self.names
    }

    /// The names of the given and declared nodes of a family, in order; the name itself if a node has it, or
    /// if there is no such family.
    pub(crate) fn members(self, name: &str) -> Vec<String> {
        if self.has(name) {
            return vec![name.to_owned()];
        }
        let member = |member: &String| Some((position_in(name, member)?, member.clone()));
        let all = self.names.given.whole.keys().chain(self.names.declared.keys());
        let members: BTreeMap<Vec<u64>, String> = all.filter_map(member).collect();
        match members.is_empty() {
            true => vec![name.to_owned()],
            false => members.into_values().collect(),
        }
    }

    /// The view of that name, if the name is that of a view.
    pub(crate) fn view(self, name: &str) -> Option<&'a View> {
        self.names.views.get(name)
    }

    /// The name of the node that a view reads, through other views.
    pub(crate) fn viewed(self, view: &'a View) -> Result<&'a str> {
        let mut of = &view.of;
        for _ in 0..=self.names.views.len() {
            match self.view(&of.name) {
                Some(view) => of = &view.of,
                None => return Ok(&of.name),
            }
        }
        let name = view.target.name.clone();
        Err(TextErrorKind::ViewCycle { name }.at(&view.target.name_span))
    }

    /// The role of the declared node of that name.
    pub(crate) fn role(self, name: &str) -> Option<Role> {
        self.names.declared.get(name).map(|&(_, role)| role)
    }

    /// Whether the node of that name is an intermediate without values so far.
    pub(crate) fn is_unwritten(self, name: &str) -> bool {
        let is_intermediate = match self.role(name) {
            Some(role) => role == Role::Node && self.names.made.get(name).is_some(),
            None => self.made(name).is_some(),
        };
        is_intermediate && self.names.write(name).is_none_or(|write| write.step >= self.written)
    }

    /// The error for a read of a node that no earlier step writes and nothing declares.
    pub(crate) fn not_written(self, name: &str) -> TextErrorKind {
        let name = name.to_owned();
        match self.names.write(&name) {
            Some(write) => TextErrorKind::ReadBeforeWritten { name, line: Some(write.line) },
            None if self.role(&name).is_some() => TextErrorKind::ReadBeforeWritten { name, line: None },
            None => match parameter_name(&name).filter(|parameter| self.has(parameter)) {
                Some(parameter) => TextGradientError::NotComputed { name, parameter }.into(),
                None => {
                    let near = similar_or_nearest(&name, self.all());
                    TextErrorKind::UnknownNode { name, near }
                }
            },
        }
    }

    /// The names of nodes other than `name` within a few edits of it, the nearest first. Names of one or two
    /// characters are all similar, so they have none.
    pub(crate) fn similar_to(self, name: &str) -> Vec<String> {
        if name.chars().count() < 3 {
            return Vec::new();
        }
        similar(name, self.all().filter(|other| other != name))
    }

    fn all(self) -> impl Iterator<Item = String> {
        let made =
            self.names.made.by_name().map(|(name, _)| name).filter(move |name| self.made(name).is_some());
        self.names.given.whole.keys().cloned().chain(made.map(str::to_owned))
    }

    /// The node of that name that the text has made so far.
    fn made(self, name: &str) -> Option<&'a TensorNode> {
        let exists = |_: &&TensorNode| match self.names.write(name) {
            Some(write) => write.step < self.made || self.names.declared.contains_key(name),
            None => true,
        };
        self.names.made.get(name).filter(exists)
    }

    /// Whether some node or view has that name.
    pub(crate) fn has(self, name: &str) -> bool {
        let names = self.names;
        names.given.has(name)
            || self.made(name).is_some()
            || names.declared.contains_key(name)
            || names.views.contains_key(name)
    }

    /// The only node of that name.
    pub(crate) fn find(self, name: &str) -> Result<TensorNode, TextErrorKind> {
        if self.names.views.contains_key(name) {
            return Err(TextErrorKind::ViewUse { name: name.to_owned() });
        }
        let declared = self.names.declared.get(name).map(|(node, _)| node);
        if let Some(node) = declared.or_else(|| self.made(name)) {
            return Ok(node.clone());
        }
        let Some(found) = self.names.given.get(name) else { return Err(self.not_written(name)) };
        let mut nodes = found.iter();
        match (nodes.next(), nodes.next()) {
            (Some(node), None) => Ok(node.clone()),
            _ => Err(TextErrorKind::AmbiguousNode {
                name: name.to_owned(),
                nodes: found.iter().map(described).collect(),
            }),
        }
    }

    /// The node of that name, which has values.
    pub(crate) fn find_written(self, name: &str) -> Result<TensorNode, TextErrorKind> {
        let node = self.find(name)?;
        if self.is_unwritten(name) { Err(self.not_written(name)) } else { Ok(node) }
    }
}

/// The name of a node with that label in a text: the inverse of [`Names::label`] without a path.
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

/// A declaration of a node as an example. A size that is not known is 8 in it.
pub(crate) fn example(name: &str, dtype: DType, sizes: &[Option<usize>]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| size.unwrap_or(8).to_string()).collect();
    format!("node {name} {dtype}[{}]", sizes.join(", "))
}

fn described(node: &TensorNode) -> String {
    format!("{} (label {:?})", node.id(), node.label().join("."))
}

/// The name of the gradient of a node: `w.grad` for `w`, and `w.grad.2` for the node `w.2` of a family.
pub(crate) fn gradient_name(parameter: &str) -> String {
    let (family, positions) = family_of(parameter);
    format!("{family}.grad{positions}")
}

/// The name of the node whose gradient has this name; `None` for other names.
pub(crate) fn parameter_name(gradient: &str) -> Option<String> {
    let (family, positions) = family_of(gradient);
    family.strip_suffix(".grad").map(|parameter| format!("{parameter}{positions}"))
}

/// The name of the family of a node and its position in it, as in `w` and `.2`. The position is empty for a
/// node of no family.
fn family_of(name: &str) -> (&str, &str) {
    let mut family = name;
    while let Some((before, position)) = family.rsplit_once('.') {
        if !position.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        family = before;
    }
    (family, &name[family.len()..])
}

/// The position of a node in the family of that name; `None` for other nodes.
pub(crate) fn position_in(family: &str, name: &str) -> Option<Vec<u64>> {
    let (found, positions) = family_of(name);
    let position = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
    let is_member = found == family && !positions.is_empty();
    is_member.then(|| positions.split('.').skip(1).map(position).collect())
}
