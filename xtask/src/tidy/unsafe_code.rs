//! Compares the list of modules with unsafe code in `docs/ARCHITECTURE.md` with the sources.
//!
//! The list stands under its heading, one item per line: `` * `path`: why ``, where a path is a file, or a
//! folder for all files in it. Each source file of a library, and of the benchmarks, that contains unsafe
//! code must be listed, and each item must contain some. Tests and examples are not listed.

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::modules::rust_files;

const DOCUMENT: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "### Modules with unsafe code";

/// Findings about files that are not listed, and items without unsafe code.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let text = std::fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("reading {DOCUMENT}"))?;
    let mut files = Vec::new();
    for file in rust_files(&root)? {
        let path = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        if is_library(&path) && contains_unsafe(&file)? {
            files.push(path);
        }
    }
    Ok(compare(&listed(&text), &files))
}

fn compare(listed: &[&str], files: &[String]) -> Vec<String> {
    let covers = |item: &str, file: &str| file == item || Path::new(file).starts_with(item);
    let missing = files.iter().filter(|file| !listed.iter().any(|item| covers(item, file)));
    let missing = missing.map(|file| format!("{file}: has unsafe code and is not listed in {DOCUMENT}"));
    let empty = listed.iter().filter(|item| !files.iter().any(|file| covers(item, file)));
    let empty = empty.map(|item| format!("{DOCUMENT}: `{item}` is listed and has no unsafe code"));
    missing.chain(empty).collect()
}

/// The paths of the list.
fn listed(text: &str) -> Vec<&str> {
    let below = text.split(HEADING).nth(1).unwrap_or_default();
    let below = below.split("\n#").next().unwrap_or_default();
    let items = below.lines().filter_map(|line| line.strip_prefix("* `"));
    items.filter_map(|item| item.split('`').next()).collect()
}

/// Whether the file is part of a library or of the benchmarks, and not a test.
fn is_library(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_source = parts.starts_with(&["benches", "src"]) || parts.get(2) == Some(&"src");
    is_source && parts.last() != Some(&"tests.rs")
}

fn contains_unsafe(file: &Path) -> Result<bool> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    if !text.contains("unsafe") {
        return Ok(false);
    }
    let tokens: TokenStream =
        text.parse().map_err(|error| anyhow::anyhow!("reading {}: {error}", file.display()))?;
    Ok(is_unsafe(tokens))
}

/// Whether there is an unsafe block, function, implementation, trait or extern block; types of unsafe
/// functions do not count.
fn is_unsafe(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => "{".to_owned(),
        _ => String::new(),
    };
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Group(group) => is_unsafe(group.stream()),
        TokenTree::Ident(ident) if ident == "unsafe" => match word(at + 1).as_str() {
            "{" | "impl" | "trait" | "extern" => true,
            "fn" => !word(at + 2).is_empty(),
            _ => false,
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_is_told_from_words() {
        let is = |text: &str| is_unsafe(text.parse().unwrap());
        assert!(is("fn f() { unsafe { g() } }"));
        assert!(
            is("impl T { unsafe fn f() {} }") && is("unsafe impl Send for T {}") && is("unsafe trait T {}")
        );
        assert!(is("macro_rules! m { () => { unsafe { g() } } }"));
        assert!(!is(
            "/// unsafe { }\n#![forbid(unsafe_code)] type F = unsafe fn(u8); const X: &str = \"unsafe {}\";"
        ));
    }

    #[test]
    fn lists_are_compared_with_files() {
        let text = format!(
            "{HEADING}\n\n* `crates/a/src/x.rs`: why\n* `crates/b/src/y`: why\n\n## Next\n* `crates/c/src`"
        );
        let listed = listed(&text);
        assert_eq!(listed, ["crates/a/src/x.rs", "crates/b/src/y"]);
        let files = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>();
        assert_eq!(compare(&listed, &files(&["crates/a/src/x.rs", "crates/b/src/y/z.rs"])), [""; 0]);
        let findings = compare(&listed, &files(&["crates/a/src/x.rs", "crates/b/src/yy.rs"]));
        assert!(findings[0].starts_with("crates/b/src/yy.rs: has unsafe code"), "{findings:?}");
        assert!(findings[1].contains("`crates/b/src/y` is listed and has no"), "{findings:?}");
        assert!(is_library("crates/a/src/b/c.rs") && is_library("benches/src/a.rs"));
        assert!(!is_library("crates/a/tests/b.rs") && !is_library("crates/a/src/b/tests.rs"));
    }
}
