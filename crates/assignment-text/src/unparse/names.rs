//! The names of nodes and letters in printed text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::{DType, TensorNode};

use crate::names::text_name;
use assignments::Assignments;
use assignments::indexing::StaticSymbol;

/// The distinct names of a program's nodes.
pub(super) struct PrintedNames {
    names: BTreeMap<TensorNode, String>,
    taken: BTreeSet<String>,
}

impl PrintedNames {
    pub(super) fn new(program: &Assignments) -> PrintedNames {
        let mut printed = PrintedNames { names: BTreeMap::new(), taken: BTreeSet::new() };
        printed.taken.extend(program.symbols.iter().filter_map(StaticSymbol::letter).map(str::to_owned));
        printed.taken.extend(run_sizes(program).into_keys().map(|size| size.to_string()));
        // Nodes of the text keep their names.
        for (name, node) in program.text_nodes.by_name() {
            printed.enter(node, name.to_owned());
        }
        for node in program.nodes().into_iter().chain(program.kept.iter().cloned()) {
            let name = as_name(&text_name(node.label())).unwrap_or_else(|| format!("n{}", node.id().get()));
            printed.enter(&node, name);
        }
        printed
    }

    fn enter(&mut self, node: &TensorNode, name: String) {
        if self.names.contains_key(node) {
            return;
        }
        let numbered = (2usize..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let name = names.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(name.clone());
        self.names.insert(node.clone(), name);
    }

    pub(super) fn node(&self, node: &TensorNode) -> &str {
        self.names.get(node).map_or("", String::as_str)
    }

    /// A letter that is neither the name of a node nor among `used`.
    pub(super) fn fresh_letter(&self, used: &BTreeSet<String>) -> String {
        let letters = ('i'..='z').chain('a'..='h').map(String::from);
        let numbered = (0usize..).map(|number| format!("i{number}"));
        let mut names = letters.chain(numbered);
        names.find(|name| !self.taken.contains(name) && !used.contains(name)).unwrap_or_default()
    }
}

/// The sizes that a run gives, with their bounds.
pub(super) fn run_sizes(program: &Assignments) -> BTreeMap<Arc<str>, usize> {
    let nodes = program.nodes().into_iter().chain(program.kept.iter().cloned());
    let sized = nodes.flat_map(|node| {
        let dims = node.dims_without_padding().unwrap_or_default();
        let sizes: Vec<_> = node.run_sizes().to_vec();
        sizes.into_iter().zip(dims).filter_map(|(size, bound)| Some((size?, bound)))
    });
    let symbols = program.symbols.iter().filter(|symbol| symbol.is_size).filter_map(|symbol| {
        let bound = usize::try_from(symbol.range?.checked_sub(1)?).ok()?;
        Some((Arc::from(symbol.name.as_str()), bound))
    });
    symbols.chain(sized).collect()
}

/// The name with its other characters replaced by `_`; none if nothing is left. A name with a meaning in the
/// language gets a `_` behind it.
fn as_name(label: &str) -> Option<String> {
    let word = |part: &str| -> String {
        part.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect()
    };
    let words: Vec<String> = label.split('.').filter(|part| !part.is_empty()).map(word).collect();
    let starts = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let first = words.first()?;
    let name = words[1..].iter().fold(
        if starts(first) { first.clone() } else { format!("_{first}") },
        |name, word| {
            if starts(word) || is_number(word) { name + "." + word } else { name + "_" + word }
        },
    );
    let is_reserved = name.parse::<DType>().is_ok() || ["where", "inf", "nan"].contains(&name.as_str());
    Some(if is_reserved || name.ends_with(".merge") { name + "_" } else { name })
}

/// Whether a source text can be the name of a letter.
pub(super) fn is_letter(source: &str) -> bool {
    let starts = source.starts_with(|c: char| c.is_alphabetic() || c == '_');
    starts && source != "where" && source.chars().all(|c| c.is_alphanumeric() || c == '_')
}
