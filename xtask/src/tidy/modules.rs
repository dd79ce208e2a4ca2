//! Every source file opens with a module doc. That of a crate may be its README.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The first line of a crate whose front page is its README.
const README: &str = "#![doc = include_str!(\"../README.md\")]";

/// Findings about Rust files that do not open with `//!`.
pub(super) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let mut findings = Vec::new();
    for file in rust_files(&root)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        if !text.starts_with("//!") && !text.starts_with(README) {
            let path = file.strip_prefix(&root).unwrap_or(&file).display();
            findings.push(format!("{path}: does not open with a `//!` module doc"));
        }
    }
    Ok(findings)
}

/// Every Rust file of the workspace's own folders.
pub(super) fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["crates", "tools", "xtask", "benches", "examples", "fuzz/fuzz_targets"] {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    Ok(files)
}

/// Adds the Rust files below a folder.
pub(super) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
