//! The programs of `docs/assignment-guide.md`, and the values that their comments state.
//!
//! A comment `# y = [1, 2]` below the statements has the values of node `y` after a run, rounded to three
//! decimals. A comment `# @step = 3: y = [1, 2]` begins another run, with that binding. Every element of an
//! input is 1.

const GUIDE: &str = include_str!("../../../../../docs/assignment-guide.md");

/// A program of the guide.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) text: &'static str,
    /// The runs, one after the other over the same memory.
    pub(crate) runs: Vec<ListingRun>,
}

/// One run of a listing.
#[derive(Debug, Default)]
pub(crate) struct ListingRun {
    /// The values of the symbols, in the order in which the program mentions them.
    pub(crate) bindings: Vec<i64>,
    /// The names of nodes, each with the text of its values.
    pub(crate) values: Vec<(&'static str, &'static str)>,
}

/// All programs of the guide, in order.
pub(crate) fn all() -> Vec<Listing> {
    let texts = GUIDE.split("```assign\n").skip(1);
    texts.map(|rest| listing(rest.split("```").next().expect("a first part"))).collect()
}

fn listing(text: &'static str) -> Listing {
    let mut runs = Vec::new();
    for comment in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        let (bindings, values) = comment.split_once(": ").unwrap_or(("", comment));
        let Some((name, value)) = values.split_once(" = ").filter(|(name, _)| !name.contains(' ')) else {
            continue;
        };
        if runs.is_empty() || !bindings.is_empty() {
            runs.push(ListingRun {
                bindings: bindings.split(", ").filter_map(binding).collect(),
                values: Vec::new(),
            });
        }
        runs.last_mut().expect("a run").values.push((name, value));
    }
    Listing { text, runs }
}

/// The value in `@name = value`.
fn binding(text: &str) -> Option<i64> {
    let (_, value) = text.strip_prefix('@')?.split_once(" = ")?;
    Some(value.parse().expect("an integer"))
}

/// The values of a node with these dimensions, as comments of the guide have them.
pub(crate) fn printed(dims: &[usize], values: &[f64]) -> String {
    let [_, inner @ ..] = dims else { return number(values[0]) };
    let rows = values.chunks(inner.iter().product::<usize>().max(1));
    format!("[{}]", rows.map(|row| printed(inner, row)).collect::<Vec<_>>().join(", "))
}

/// A number, rounded to three decimals; never `-0`.
fn number(value: f64) -> String {
    ((value * 1000.0).round() / 1000.0 + 0.0).to_string()
}
