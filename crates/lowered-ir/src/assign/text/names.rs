//! Finding nodes by what people call them.

use std::collections::{BTreeMap, BTreeSet};

use tnode::TensorNode;

use super::error::{TextErrorKind, near};

/// The nodes of a text by name: by the whole name first, else by the last part of the label.
pub(super) struct NodeNames {
    whole: BTreeMap<String, BTreeSet<TensorNode>>,
    last: BTreeMap<String, BTreeSet<TensorNode>>,
}

impl NodeNames {
    pub(super) fn new(nodes: &[TensorNode]) -> NodeNames {
        let mut names = NodeNames { whole: BTreeMap::new(), last: BTreeMap::new() };
        for node in nodes {
            names.whole.entry(node.name()).or_default().insert(node.clone());
            if let Some(part) = node.label().last() {
                names.last.entry(part.clone()).or_default().insert(node.clone());
            }
        }
        names
    }

    /// The one node of that name.
    pub(super) fn find(&self, name: &str) -> Result<TensorNode, TextErrorKind> {
        let Some(found) = self.whole.get(name).or_else(|| self.last.get(name)) else {
            return Err(TextErrorKind::UnknownNode {
                name: name.to_owned(),
                near: near(name, self.whole.keys().cloned()),
            });
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

fn described(node: &TensorNode) -> String {
    format!("{} (label {:?})", node.id(), node.label().join("."))
}
