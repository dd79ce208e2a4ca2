//! Nodes by name.

use std::collections::BTreeMap;

use tnode::TensorNode;

use crate::spelling::{near_names, similar_or_nearest};

/// Nodes with distinct names, in the order in which they were added.
///
/// ```
/// use assignments::Nodes;
/// use tnode::TensorNode;
///
/// let mut nodes = Nodes::default();
/// nodes.insert("x", TensorNode::builder("x").dims([32, 64]).build()?);
/// nodes.insert("w", TensorNode::builder("w").dims([64, 10]).build()?);
/// assert_eq!(nodes.find("w")?.dims()?.as_slice(), [64, 10]);
/// assert_eq!(nodes.find("v").unwrap_err().to_string(), "unknown node `v`; expected one of w, x");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    nodes: Vec<TensorNode>,
    places: BTreeMap<String, usize>,
}

/// A name that no node has.
#[derive(thiserror::Error)]
#[error("unknown node `{name}`; {}", near_names(near))]
pub struct UnknownNode {
    /// The name.
    pub name: String,
    /// Similar names, the nearest first; if there are none, all names, or the nearest if there are many.
    pub near: Vec<String>,
}

impl Nodes {
    /// The node of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&TensorNode> {
        self.places.get(name).and_then(|&at| self.nodes.get(at))
    }

    /// The node of that name.
    ///
    /// # Errors
    /// If there is none. The error lists similar names.
    pub fn find(&self, name: &str) -> Result<&TensorNode, UnknownNode> {
        self.get(name).ok_or_else(|| UnknownNode::among(name, self.places.keys().cloned()))
    }

    /// Adds a node under a name, in the place of a node that has the name already.
    pub fn insert(&mut self, name: impl Into<String>, node: TensorNode) {
        let next = self.nodes.len();
        match *self.places.entry(name.into()).or_insert(next) {
            at if at == next => self.nodes.push(node),
            at => self.nodes[at] = node,
        }
    }

    /// Iterates over the nodes in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, TensorNode> {
        self.nodes.iter()
    }

    /// The names with their nodes, sorted by name.
    pub fn by_name(&self) -> impl Iterator<Item = (&str, &TensorNode)> {
        self.places.iter().map(|(name, &at)| (name.as_str(), &self.nodes[at]))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl UnknownNode {
    /// The error for a name that is not among `names`.
    pub fn among(name: &str, names: impl IntoIterator<Item = String>) -> UnknownNode {
        let near = similar_or_nearest(name, names);
        UnknownNode { name: name.to_owned(), near }
    }
}

impl<'a> IntoIterator for &'a Nodes {
    type Item = &'a TensorNode;
    type IntoIter = std::slice::Iter<'a, TensorNode>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<S: Into<String>> Extend<(S, TensorNode)> for Nodes {
    fn extend<I: IntoIterator<Item = (S, TensorNode)>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|(name, node)| self.insert(name, node));
    }
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Nodes) -> bool {
        self.by_name().eq(other.by_name())
    }
}
