//! Documents name files, folders and tests of this repository; each must exist.
//!
//! A *path* is anything in backticks that contains a `/` and begins with a top-level name of the repository,
//! or the target of a Markdown link, relative or to the repository's pages. A *test* is `` test `name` `` in
//! backticks after the word *test*, on the same line or the next: a function with the attribute `#[test]`, or
//! a test of a suite for drivers, must have that name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::modules::rust_files;

/// Top-level names that make a backticked word a path.
pub(super) const ROOTS: &[&str] =
    &["crates/", "tools/", "docs/", "xtask/", "benches/", "examples/", "data/", "fuzz/", ".github/", ".ci/"];

/// The address of the repository's files, in links of pages that are shown elsewhere too.
const PAGES: &str = "https://github.com/arrayjit/arrayjit/blob/main/";

/// Findings about names of things that do not exist.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let tests = all_tests(&root)?;
    let mut findings = Vec::new();
    for file in documents(&root)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        for (number, line) in text.lines().enumerate() {
            for missing in missing_in(line, &root, &file) {
                findings.push(format!("{shown}:{}: {missing}", number + 1));
            }
        }
        let named = text.split("\n\n").map(one_line);
        let missing = named.flat_map(|paragraph| missing_tests(&paragraph, &tests));
        findings.extend(missing.map(|test| format!("{shown}: there is no test `{test}`")));
    }
    Ok(findings)
}

fn missing_in(line: &str, root: &Path, file: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    for path in named_paths(line) {
        if !root.join(path).exists() {
            missing.push(format!("`{path}` does not exist"));
        }
    }
    for target in link_targets(line) {
        let path = match target.strip_prefix(PAGES) {
            Some(path) => root.join(path),
            None => file.parent().unwrap_or(root).join(target),
        };
        if !path.exists() {
            missing.push(format!("the link target `{target}` does not exist"));
        }
    }
    missing
}

/// A paragraph without its line breaks, which may separate the word *test* from the name.
fn one_line(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn missing_tests(paragraph: &str, tests: &BTreeSet<String>) -> Vec<String> {
    named_tests(paragraph).into_iter().filter(|name| !tests.contains(*name)).map(str::to_owned).collect()
}

/// Backticked words that begin with a top-level folder. Patterns (`*`, `{`) and placeholders (`NAME`) are not
/// paths.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|word| {
        ROOTS.iter().any(|r| word.starts_with(r))
            && !word.contains(['*', '{', '<', ' ', '…'])
            && !word.contains("NAME")
    })
}

/// Targets of Markdown links to files of this repository, without their fragments.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter_map(|target| {
        let path = target.split('#').next().unwrap_or_default();
        (path.starts_with(PAGES) || !path.is_empty() && !path.contains(':')).then_some(path)
    })
}

/// Names in backticks that follow the word *test* or *tests*, and those that a comma or *and* adds to them.
pub(super) fn named_tests(line: &str) -> Vec<&str> {
    let (mut names, mut is_list) = (Vec::new(), false);
    let parts: Vec<&str> = line.split('`').collect();
    for pair in parts.chunks(2) {
        let [before, name] = pair else { break };
        is_list = before.ends_with("test ")
            || before.ends_with("tests ")
            || (is_list && [", ", " and "].contains(before));
        names.extend(is_list.then_some(*name));
    }
    names
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders =
        ["", "docs", "docs/adr", "data", "crates/scheduler-multicore/src"].map(|f| root.join(f)).to_vec();
    folders.extend(super::files::packages(root)?);
    for folder in folders {
        if folder.is_dir() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|e| e == "md") {
                    files.push(path);
                }
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The names of all tests of the crates.
fn all_tests(root: &Path) -> Result<BTreeSet<String>> {
    let mut tests = BTreeSet::new();
    for file in rust_files(root)? {
        tests.extend(tests_of(&std::fs::read_to_string(file)?));
    }
    Ok(tests)
}

/// The names of functions behind `#[test]`, and the names on lines of their own behind `@tests`, which the
/// suites for drivers list.
fn tests_of(source: &str) -> Vec<String> {
    let (mut tests, mut is_test, mut is_suite) = (Vec::new(), false, false);
    for line in source.lines().map(str::trim) {
        is_test |= line.contains("#[test]");
        is_suite = (is_suite || line.contains("@tests")) && !line.starts_with('}');
        let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if let Some((name, _)) = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')) {
            tests.extend(is_test.then(|| name.to_owned()));
            is_test = false;
        } else if is_suite && !line.is_empty() && is_name(line) {
            tests.push(line.to_owned());
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_links_and_tests_are_found_in_a_line() {
        let line = "see `crates/x/y.rs` and [this](docs/z.md#a), held by test `holds`, `too`; not `a/b` or `crates/*`";
        let page = format!("[here]({PAGES}docs/z.md#a) and [there](https://example.com)");
        assert_eq!(named_paths(line).collect::<Vec<_>>(), ["crates/x/y.rs"]);
        assert_eq!(link_targets(line).collect::<Vec<_>>(), ["docs/z.md"]);
        assert_eq!(link_targets(&page).collect::<Vec<_>>(), [format!("{PAGES}docs/z.md")]);
        assert_eq!(named_tests(line), ["holds", "too"]);
        let broken = one_line(
            "The tests `one` and\n   `two` hold, and so does the test\n   `three`. `Four` is a type.",
        );
        assert_eq!(named_tests(&broken), ["one", "two", "three"]);
        let known = BTreeSet::from(["one".to_owned(), "three".to_owned()]);
        assert_eq!(missing_tests(&broken, &known), ["two"]);
    }

    #[test]
    fn tests_are_functions_with_the_attribute_or_members_of_suites() {
        let source = "#[test]
            #[ignore = \"slow\"]
            fn one() {}
            fn helper() {}
            suite! { @tests make,
                two
                three
            }
            other! {
                four
            }";
        assert_eq!(tests_of(source), ["one", "two", "three"]);
    }
}
