//! The names of nodes and letters in printed text.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, RunSize, TensorNode};

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
        printed.taken.extend(run_sizes(program).iter().map(|size| size.name().to_owned()));
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

/// The sizes that a run gives, and behind them those that follow from them.
pub(super) fn run_sizes(program: &Assignments) -> Vec<RunSize> {
    let nodes = program.nodes().into_iter().chain(program.kept.iter().cloned());
    let of_nodes = nodes.flat_map(|node| node.run_sizes().iter().flatten().cloned().collect::<Vec<_>>());
    let of_symbols = program.symbols.iter().filter_map(|symbol| symbol.size.clone());
    with_sources(&of_symbols.chain(of_nodes).collect::<Vec<_>>())
}

/// Sizes with those from which they follow, each behind these.
fn with_sources<'a>(sizes: impl IntoIterator<Item = &'a RunSize>) -> Vec<RunSize> {
    let mut all = BTreeSet::new();
    for size in sizes {
        size.each_source(&mut |size| _ = all.insert((size.depth(), size.clone())));
    }
    all.into_iter().map(|(_, size)| size).collect()
}

/// Declarations of sizes, and of those from which they follow, under the names of their symbols: a line for
/// the sizes that a run gives, and one for the others.
///
/// ```
/// use tnode::{RunSize, SizeSum};
///
/// let n = RunSize::given("n", 64);
/// let half = SizeSum::from(&n).floor_over(2).and_then(|sum| sum.size());
/// assert_eq!(assignment_text::declared_sizes(half.as_ref()), "size n <= 64\nsize n_over_2 = n/2\n");
/// ```
pub fn declared_sizes<'a>(sizes: impl IntoIterator<Item = &'a RunSize>) -> String {
    let (given, derived): (Vec<_>, Vec<_>) =
        with_sources(sizes).into_iter().partition(|size| size.quotient().is_none());
    let line = |items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!("size {}\n", items.join(", ")),
    };
    let given = given.iter().map(|size| format!("{} <= {}", size.name(), size.bound())).collect();
    let derived = derived.iter().map(|size| format!("{} = {size}", size.name())).collect();
    line(given) + &line(derived)
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
