//! Names for new nodes.

use std::collections::{HashMap, HashSet};

use tnode::TensorNode;

/// The names of the nodes of a program, which new nodes avoid.
#[derive(Clone, Default)]
pub(crate) struct NameSupply {
    used: HashSet<String>,
    /// The least number that may be unused, for each series of names by its first name.
    next: HashMap<String, usize>,
}

impl NameSupply {
    /// Reserves the names of nodes.
    pub(crate) fn extend<'a>(&mut self, nodes: impl IntoIterator<Item = &'a TensorNode>) {
        self.used.extend(nodes.into_iter().map(TensorNode::name));
    }

    /// The first of a series of names that no node has, counted from 1.
    pub(crate) fn unused(&mut self, name: impl Fn(usize) -> String) -> String {
        let next = self.next.entry(name(1)).or_insert(1);
        loop {
            let found = name(*next);
            *next += 1;
            if self.used.insert(found.clone()) {
                return found;
            }
        }
    }
}

/// The name of that number in the series `h`, `h_2`, `h_3` and so on.
pub(crate) fn numbered(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}_{number}") }
}
