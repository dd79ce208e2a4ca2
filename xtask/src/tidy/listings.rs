//! Listings of guides are parts of files that are compiled and tested.
//!
//! A line `<!-- PATH -->` above a listing names the file. The lines of the listing stand in the file in the
//! same order without a gap, indented alike; a line `// …` stands for any number of lines. In the guides,
//! every listing of Rust, C or TOML has such a line above it.

use std::path::Path;

use anyhow::{Context, Result};

/// The documents that are checked.
const GUIDES: [&str; 3] = ["docs/aot.md", "docs/writing-a-codegen.md", "docs/writing-a-device.md"];
/// The languages of listings that are parts of files.
const LANGUAGES: [&str; 3] = ["rust", "c", "toml"];
/// A line of a listing that stands for any number of lines.
const GAP: &str = "// …";

/// A listing of a document.
#[derive(Debug, PartialEq, Eq)]
struct Listing<'a> {
    /// The number of the line that opens it.
    number: usize,
    language: &'a str,
    /// The file in the line above it.
    file: Option<&'a str>,
    lines: Vec<&'a str>,
}

/// Findings about listings that name no file, or differ from it.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let mut findings = Vec::new();
    for guide in GUIDES {
        let text = std::fs::read_to_string(root.join(guide)).with_context(|| format!("reading {guide}"))?;
        for listing in listings(&text) {
            findings
                .extend(finding(&root, &listing).map(|what| format!("{guide}:{}: {what}", listing.number)));
        }
    }
    Ok(findings)
}

fn finding(root: &Path, listing: &Listing<'_>) -> Option<String> {
    let Some(file) = listing.file else {
        let is_code = LANGUAGES.contains(&listing.language);
        return is_code.then(|| "the listing names no file; expected `<!-- PATH -->` above it".to_owned());
    };
    let Ok(text) = std::fs::read_to_string(root.join(file)) else {
        return Some(format!("the listing's file `{file}` cannot be read"));
    };
    let missing = first_missing(&listing.lines, &text)?;
    Some(format!("the listing differs from `{file}`, from `{}` on", missing.trim()))
}

fn listings(text: &str) -> Vec<Listing<'_>> {
    let mut found: Vec<Listing<'_>> = Vec::new();
    let (mut is_open, mut above) = (false, "");
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), is_open) {
            (Some(language), false) => {
                let file = above.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                found.push(Listing { number: at + 1, language, file, lines: Vec::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => found.iter_mut().last().into_iter().for_each(|last| last.lines.push(line)),
            (None, false) => {}
        }
        above = line;
    }
    found
}

/// The first line of the first part that is not in the text; parts lie between gaps.
fn first_missing<'a>(listing: &[&'a str], text: &str) -> Option<&'a str> {
    let text: Vec<&str> = text.lines().collect();
    let mut from = 0;
    for part in listing.split(|line| line.trim() == GAP).filter(|part| !part.is_empty()) {
        match (from..text.len()).find(|at| is_part(part, &text[*at..])) {
            Some(at) => from = at + part.len(),
            None => return part.first().copied(),
        }
    }
    None
}

fn is_part(part: &[&str], text: &[&str]) -> bool {
    part.len() <= text.len() && part.iter().zip(text).all(|(line, found)| line.trim_end() == *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_the_file_above_it() {
        let text = "text\n<!-- src/a.rs -->\n```rust\nlet a;\n```\n\n```sh\nls\n```\n";
        let expected = [
            Listing { number: 3, language: "rust", file: Some("src/a.rs"), lines: vec!["let a;"] },
            Listing { number: 7, language: "sh", file: None, lines: vec!["ls"] },
        ];
        assert_eq!(listings(text), expected);
    }

    #[test]
    fn parts_stand_in_the_file_in_order() {
        let file = "a\n  b\nc\nd\n";
        assert_eq!(first_missing(&["  b", "c"], file), None);
        assert_eq!(first_missing(&["a", "// …", "d"], file), None);
        assert_eq!(first_missing(&["b", "c"], file), Some("b"));
        assert_eq!(first_missing(&["d", "// …", "a"], file), Some("a"));
        assert_eq!(first_missing(&["d", "e"], file), Some("d"));
    }

    #[test]
    fn code_without_a_file_is_found() {
        let listing = |language, file| Listing { number: 1, language, file, lines: vec!["no such line"] };
        let found = |language, file| finding(&crate::root(), &listing(language, file));
        assert_eq!(found("sh", None), None);
        assert!(found("rust", None).unwrap().contains("names no file"));
        assert!(found("rust", Some("no/such.rs")).unwrap().contains("cannot be read"));
        assert!(found("rust", Some("Cargo.toml")).unwrap().contains("differs from `Cargo.toml`"));
    }
}
