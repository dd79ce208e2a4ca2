//! Finds nodes by name, and similar names for misspelled ones.

use std::collections::{BTreeMap, BTreeSet};

use tnode::TensorNode;

use super::error::TextErrorKind;

/// The nodes of a text by name. A whole name takes precedence over the last part of a label.
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

    /// Whether some node has that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.whole.contains_key(name) || self.last.contains_key(name)
    }

    /// The only node of that name.
    pub(super) fn find(&self, name: &str) -> Result<TensorNode, TextErrorKind> {
        let Some(found) = self.whole.get(name).or_else(|| self.last.get(name)) else {
            return Err(TextErrorKind::UnknownNode {
                name: name.to_owned(),
                near: similar_or_nearest(name, self.whole.keys().cloned()),
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

/// The names among `all` within a few edits of `name`, the nearest first.
pub(super) fn similar(name: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let limit = 1 + name.chars().count() / 4;
    let near = by_distance(name, all).into_iter().take_while(|(distance, _)| *distance <= limit);
    near.map(|(_, name)| name).collect()
}

/// The similar names; if there are none, all names, or the nearest if there are many.
pub(super) fn similar_or_nearest(name: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let all: Vec<String> = all.into_iter().collect();
    match similar(name, all.iter().cloned()) {
        near if !near.is_empty() => near,
        _ if all.len() <= MAX_NAMES => all,
        _ => by_distance(name, all).into_iter().take(MAX_NAMES).map(|(_, name)| name).collect(),
    }
}

/// The largest number of names in an error.
const MAX_NAMES: usize = 6;

/// All names with their edit distance from `name`, case ignored, in increasing order.
fn by_distance(name: &str, all: impl IntoIterator<Item = String>) -> Vec<(usize, String)> {
    let lower = name.to_lowercase();
    let distance = |other: String| (strsim::osa_distance(&lower, &other.to_lowercase()), other);
    let mut all: Vec<(usize, String)> = all.into_iter().map(distance).collect();
    all.sort();
    all.dedup();
    all
}
