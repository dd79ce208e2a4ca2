//! Every listing of `docs/assignment-guide.md` and `docs/assignment-text.md` is read, lowered and verified,
//! every error in them is the real one, and the reference has every error.

use assignment_text::{TextError, parse, parse_nodes};
use assignments::Assignments;
use assignments::lower::{LowerOptions, lower};
use lowered_ir::verify::verify;
use tnode::TensorNode;

const DOCUMENTS: [&str; 2] = [
    include_str!("../../../../docs/assignment-guide.md"),
    include_str!("../../../../docs/assignment-text.md"),
];

/// The listings in fences of that language.
pub(crate) fn listings(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let starts = DOCUMENTS.iter().flat_map(|document| document.split(fence.as_str()).skip(1));
    starts.map(|rest| rest.split("```").next().expect("a first part")).collect()
}

/// The nodes that a listing declares in a comment in its first line, if there is one.
fn nodes(listing: &str) -> Vec<TensorNode> {
    let first = listing.lines().next().expect("a first line");
    let declarations = first.strip_prefix("# nodes:").unwrap_or_default();
    parse_nodes(declarations).unwrap_or_else(|error| panic!("{error}")).iter().cloned().collect()
}

pub(crate) fn read(listing: &str) -> Result<Assignments, TextError> {
    parse(listing, &nodes(listing))
}

#[test]
fn listings_are_programs() {
    let all = listings("assign");
    assert!(all.len() >= 40, "found {} listings", all.len());
    for listing in all {
        let program = read(listing).unwrap_or_else(|error| panic!("{error}"));
        // A crate above this one expands gradients; `arrayjit` compiles the listings that have some.
        if program.has_gradients() {
            continue;
        }
        let lowered =
            lower(&program, &LowerOptions::default()).unwrap_or_else(|error| panic!("{listing}{error}"));
        verify(&lowered.lowered.routine).unwrap_or_else(|error| panic!("{listing}{error}"));
    }
}

#[test]
fn the_range_of_the_step_is_as_stated() {
    let program =
        listings("assign").into_iter().find(|listing| listing.contains("32*@step")).expect("there is one");
    let lowered = lower(&read(program).expect("reads"), &LowerOptions::default()).expect("lowers").lowered;
    let ranges: Vec<(&str, i64)> =
        lowered.routine.symbols.iter().map(|s| (s.name.as_str(), s.range)).collect();
    assert_eq!(ranges, [("step", 56), ("epoch", 100)]);
}

#[test]
fn errors_are_as_stated() {
    let all = listings("assign-error");
    assert!(all.len() >= 30, "found {} listings", all.len());
    for listing in all {
        let (text, expected) = listing.split_once("---\n").expect("a text and its error");
        let error = match parse(text, &nodes(text)) {
            Err(error) => error.to_string(),
            Ok(program) => {
                lower(&program, &LowerOptions::default()).map(|_| ()).expect_err("rejected").to_string()
            }
        };
        assert_eq!(error, expected.trim_end());
    }
}

/// The longest part without a placeholder of each error message in a source.
fn messages(source: &'static str) -> Vec<String> {
    let quoted = |rest: &'static str| rest.trim_start().strip_prefix('"')?.split('"').next();
    let longest = |message: &str| {
        let message: String = message.split("\\\n").map(str::trim_start).collect();
        message.split(['{', '}']).step_by(2).max_by_key(|part| part.len()).map(|part| part.trim().to_owned())
    };
    source.split("#[error(").skip(1).filter_map(quoted).filter_map(longest).collect()
}

#[test]
fn the_reference_has_every_error() {
    let sources = [
        include_str!("../../src/error/kind.rs"),
        include_str!("../../../assignments/src/lower/error.rs"),
        include_str!("../../../arrayjit-autodiff/src/error.rs"),
    ];
    let messages: Vec<String> = sources.iter().flat_map(|source| messages(source)).collect();
    assert!(messages.len() > 100, "found {} messages", messages.len());
    let (_, table) = DOCUMENTS[1].split_once("### All errors").expect("a heading");
    let missing: Vec<&String> = messages.iter().filter(|message| !table.contains(message.as_str())).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
