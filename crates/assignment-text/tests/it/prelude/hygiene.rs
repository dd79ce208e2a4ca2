//! The letters of a caller never mean a name of a function: the values stay when the letters are renamed to
//! the parameters, results, letters and own nodes of the functions called.

use std::collections::{BTreeMap, BTreeSet};

use super::array::Case;
use super::{cases, difference};

const SOURCES: &str = concat!(
    include_str!("../../../prelude/activations.assign"),
    include_str!("../../../prelude/attention.assign"),
    include_str!("../../../prelude/convolution.assign"),
    include_str!("../../../prelude/grids.assign"),
    include_str!("../../../prelude/losses.assign"),
    include_str!("../../../prelude/normalization.assign"),
    include_str!("../../../prelude/optimizers.assign"),
    include_str!("../../../prelude/recurrent.assign"),
);

/// The words of a text, and the characters between them.
fn split(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

/// The names in a text that are no functions, and the functions.
fn names(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    const WORDS: [&str; 8] = ["def", "detach", "in", "inout", "pi", "repeat", "size", "where"];
    let parts = split(text);
    let is_name = |part: &str| part.starts_with(|c: char| c.is_alphabetic()) && !WORDS.contains(&part);
    let found = parts.iter().enumerate().filter(|(_, part)| is_name(part));
    let (functions, names): (Vec<_>, Vec<_>) = found.partition(|(at, _)| parts.get(at + 1) == Some(&"("));
    (
        names.into_iter().map(|(_, name)| *name).collect(),
        functions.into_iter().map(|(_, name)| *name).collect(),
    )
}

/// The definitions of the prelude by name.
fn definitions() -> BTreeMap<&'static str, String> {
    let mut definitions = BTreeMap::new();
    let lines = SOURCES.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let lines: &'static str = lines.leak();
    for definition in lines.split("def ").skip(1) {
        let name = definition.split('(').next().expect("a first part");
        definitions.insert(name, definition.to_owned());
    }
    definitions
}

/// The names in the functions that a program calls, directly or not.
fn names_of_called(text: &str, definitions: &BTreeMap<&str, String>) -> BTreeSet<String> {
    let mut open: Vec<String> = names(text).1.into_iter().map(str::to_owned).collect();
    let (mut called, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(function) = open.pop() {
        let Some(definition) = definitions.get(function.as_str()) else { continue };
        let (names, functions) = names(definition);
        found.extend(names.into_iter().map(str::to_owned));
        if called.insert(function) {
            open.extend(functions.into_iter().map(str::to_owned));
        }
    }
    found
}

/// The letters of a program without declarations: the names that index nodes and are not nodes.
fn letters(text: &str) -> Vec<&str> {
    let parts = split(text);
    let mut letters = Vec::new();
    let mut depth = 0;
    for (at, part) in parts.iter().enumerate() {
        match *part {
            "[" => depth += 1,
            "]" => depth -= 1,
            name if depth > 0 && name.starts_with(|c: char| c.is_alphabetic()) => {
                let is_letter = parts.get(at + 1) != Some(&"[") && parts[at - 1] != "@";
                if is_letter && !letters.contains(&name) {
                    letters.push(name);
                }
            }
            _ => {}
        }
    }
    letters
}

/// The program with other letters.
fn renamed(text: &str, letters: &[&str], to: &[&String]) -> String {
    let parts = split(text);
    let rename = |(at, part): (usize, &&str)| {
        let is_use = parts.get(at + 1).is_none_or(|next| *next != "[" && *next != "(");
        let place = letters.iter().position(|letter| letter == part).filter(|_| is_use);
        place.map_or_else(|| (*part).to_owned(), |place| to[place].clone())
    };
    parts.iter().enumerate().map(rename).collect()
}

#[test]
fn letters_of_the_caller_collide_with_no_name_of_a_function() {
    let definitions = definitions();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases::all() {
        // The networks of the guide have sizes among their letters.
        if names(&case.text).0.contains("param") {
            continue;
        }
        let letters = letters(&case.text);
        let own = names(&case.text).0;
        let found = names_of_called(&case.text, &definitions);
        let found: Vec<&String> = found
            .iter()
            .filter(|name| letters.contains(&name.as_str()) || !own.contains(name.as_str()))
            .collect();
        let shifts = if found.len() < letters.len() { 0 } else { found.len() };
        for shift in 0..shifts {
            let to: Vec<&String> = (0..letters.len()).map(|at| found[(shift + at) % found.len()]).collect();
            let text = renamed(&case.text, &letters, &to);
            let (sizes, bindings) = (case.sizes, case.bindings.clone());
            let (inputs, expected) = (case.inputs.clone(), case.expected.clone());
            let case = Case { text, sizes, bindings, inputs, expected };
            count += 1;
            failures.extend(difference(&case).err().map(|why| format!("{}\n{why}\n", case.text)));
        }
    }
    assert!(count > 150, "{count}");
    assert!(failures.is_empty(), "{} of {count}\n{}", failures.len(), failures.join("\n"));
}
