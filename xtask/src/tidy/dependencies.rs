//! Checks that compilers build no library of file formats: `tnode` reads and writes files behind a feature,
//! which only `arrayjit` turns on.

use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

/// Packages that `tnode` builds only with its feature `files`.
const FILE_FORMATS: [&str; 2] = ["zip", "safetensors"];

/// Findings about crates of the compiler that depend on a library of file formats.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(crate::root()).no_deps().exec()?;
    let names = metadata.packages.iter().map(|package| package.name.as_str());
    let compilers: Vec<&str> = names.filter(|name| is_compiler(name)).collect();
    Ok(findings(&tree(&compilers)?))
}

fn is_compiler(name: &str) -> bool {
    ["tnode", "lowered-ir", "assignments", "assignment-text", "arrayjit-scheduling"].contains(&name)
        || (name.starts_with("codegen-") && name != "codegen-testkit")
}

/// The lines of `cargo tree` for the normal dependencies of some packages, built with only the features that
/// they request themselves.
fn tree(packages: &[&str]) -> Result<String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate::root()).args([
        "tree",
        "--offline",
        "--no-default-features",
        "--prefix",
        "none",
    ]);
    command.args(["--edges", "normal,build", "--format", "{p}"]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = command.output().context("cannot run `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn findings(tree: &str) -> Vec<String> {
    let packages = tree.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<&str> = packages.filter(|package| FILE_FORMATS.contains(package)).collect();
    found.sort_unstable();
    found.dedup();
    let finding = |package| {
        format!("Cargo.toml: the compiler's crates depend on `{package}`, which only `tnode/files` may build")
    };
    found.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_with_files_is_a_finding() {
        let tree =
            "lowered-ir v0.1.0 (/crates/lowered-ir)\ntnode v0.1.0\nzip v9.4.0\nsmallvec v1.15.0\nzip v9.4.0";
        assert_eq!(findings(tree).len(), 1);
        assert!(findings("tnode v0.1.0\nzipf v1.0.0").is_empty());
        let with_files = tree_with_files();
        assert_eq!(findings(&with_files).len(), FILE_FORMATS.len(), "{with_files}");
    }

    fn tree_with_files() -> String {
        tree(&["arrayjit-tensor"]).expect("the workspace has a tree")
    }
}
