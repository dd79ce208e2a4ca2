//! Documents name files, folders and tests of this repository; each must exist.
//!
//! A *path* is anything in backticks that contains a `/` and begins with a top-level name of the repository,
//! or the target of a Markdown link, relative or to the repository's pages. A *test* is `` test `name` `` in
//! backticks after the word *test*: a function of that name must exist.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Top-level names that make a backticked word a path.
pub(super) const ROOTS: &[&str] =
    &["crates/", "docs/", "xtask/", "benches/", "examples/", "web/", "data/", "fuzz/", ".github/", ".ci/"];

/// The address of the repository's files, in links of pages that are shown elsewhere too.
const PAGES: &str = "https://github.com/arrayjit/arrayjit/blob/main/";

/// Findings about names of things that do not exist.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let sources = all_sources(&root)?;
    let mut findings = Vec::new();
    for file in documents(&root)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        for (number, line) in text.lines().enumerate() {
            for missing in missing_in(line, &root, &file, &sources) {
                findings.push(format!("{shown}:{}: {missing}", number + 1));
            }
        }
    }
    Ok(findings)
}

fn missing_in(line: &str, root: &Path, file: &Path, sources: &str) -> Vec<String> {
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
    for test in named_tests(line) {
        if !sources.contains(&format!("fn {test}(")) {
            missing.push(format!("there is no test `{test}`"));
        }
    }
    missing
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

/// Names in backticks that follow the word *test* or *tests*.
pub(super) fn named_tests(line: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let parts: Vec<&str> = line.split('`').collect();
    for pair in parts.chunks(2) {
        if let [before, name] = pair
            && (before.ends_with("test ")
                || before.ends_with("tests ")
                || (before == &", " && !names.is_empty()))
        {
            names.push(*name);
        }
    }
    names
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders =
        ["", "docs", "docs/adr", "data", "crates/scheduler-multicore/src"].map(|f| root.join(f)).to_vec();
    for package in std::fs::read_dir(root.join("crates"))? {
        folders.push(package?.path());
    }
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

/// The text of every Rust file of the crates, to look names up in.
fn all_sources(root: &Path) -> Result<String> {
    let mut text = String::new();
    let mut folders: Vec<PathBuf> =
        ["crates", "xtask", "benches", "examples", "web"].map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                text.push_str(&std::fs::read_to_string(&path)?);
            }
        }
    }
    Ok(text)
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
    }
}
