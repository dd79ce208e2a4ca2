//! What the functions of the sources mention, for documents that cite tests.
//!
//! A function mentions the words of its own text, and of the functions of its file that it calls. The text is
//! read without a parser, since macros make many of the tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;

use super::modules::rust_files;

/// The functions of the sources by name, each with the file that it stands in.
#[derive(Default)]
pub(super) struct Functions {
    files: Vec<BTreeMap<String, BTreeSet<String>>>,
    by_name: BTreeMap<String, Vec<usize>>,
}

impl Functions {
    /// The functions of the crates and tools.
    pub(super) fn read(root: &Path) -> Result<Functions> {
        let mut functions = Functions::default();
        for file in rust_files(root)? {
            functions.add(&std::fs::read_to_string(file)?);
        }
        Ok(functions)
    }

    /// Adds the functions of a file.
    pub(super) fn add(&mut self, source: &str) {
        let file = words_of_functions(source);
        for name in file.keys() {
            self.by_name.entry(name.clone()).or_default().push(self.files.len());
        }
        self.files.push(file);
    }

    /// Whether some function of this name mentions one of the words.
    pub(super) fn mentions(&self, name: &str, words: &[&str]) -> bool {
        let files = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        files.iter().any(|&file| reaches(&self.files[file], name, words))
    }
}

/// Whether a function of a file, or one that it calls there, mentions one of the words.
fn reaches(file: &BTreeMap<String, BTreeSet<String>>, name: &str, words: &[&str]) -> bool {
    let (mut met, mut open) = (BTreeSet::from([name]), vec![name]);
    while let Some(name) = open.pop() {
        let Some(mentioned) = file.get(name) else { continue };
        if words.iter().any(|word| mentioned.contains(*word)) {
            return true;
        }
        open.extend(
            mentioned.iter().map(String::as_str).filter(|word| file.contains_key(*word) && met.insert(word)),
        );
    }
    false
}

/// The words of each function's text, without its name, by name. Functions of one name count as one.
fn words_of_functions(source: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (at, _) in source.match_indices("fn ") {
        let rest = &source[at + 3..];
        let name = rest.split(|c: char| !is_word(c)).next().unwrap_or_default();
        if name.is_empty() || source[..at].ends_with(is_word) {
            continue;
        }
        let text = &rest[name.len()..];
        let words = text[..end(text)].split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
        functions.entry(name.to_owned()).or_default().extend(words.map(str::to_owned));
    }
    functions
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The end of the function whose parameters begin the text: behind the braces that match, or behind the
/// semicolon of a declaration. Comments do not count.
fn end(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    for line in text.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default().replace("'{'", "   ").replace("'}'", "   ");
        for (column, c) in code.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return at + column,
                '}' => depth -= 1,
                ';' if depth == 0 && !code[..column].contains('[') => return at + column,
                _ => {}
            }
        }
        at += line.len();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        fn declared(a: u8) -> u8;
        #[test]
        fn direct() { assert_eq!(node.dims(), format!(\"{a}\")); }
        #[test]
        fn through_a_helper() {
            helper(1);
        }
        fn helper(a: [u8; 2]) {
            // } a comment about padding
            if a == '{' { deeper() }
        }
        fn deeper() { device.used_memory() }
        proptest! { #[test] fn generated(x in 0..3) { strides(x) } }";

    fn mentions(name: &str, word: &str) -> bool {
        let mut functions = Functions::default();
        functions.add(SOURCE);
        functions.mentions(name, &["absent", word])
    }

    #[test]
    fn functions_mention_their_words_and_those_of_the_functions_they_call() {
        assert!(mentions("direct", "dims") && mentions("generated", "strides"));
        assert!(mentions("through_a_helper", "used_memory"));
        assert!(!mentions("direct", "used_memory") && !mentions("deeper", "helper"));
        assert!(!mentions("declared", "dims"), "a declaration ends with its semicolon");
        assert!(!mentions("direct", "dim"), "whole words only");
        assert!(!mentions("nowhere", "dims"));
    }
}
