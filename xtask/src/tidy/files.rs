//! The text files of the repository that checks of words and widths read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Endings of the files that people write.
const ENDINGS: &[&str] =
    &["rs", "md", "toml", "lir", "txt", "yml", "sh", "py", "js", "html", "css", "wgsl", "ptx", "cpu"];
/// Top-level folders with such files, besides the root's own files.
const FOLDERS: &[&str] =
    &["crates", "tools", "xtask", "benches", "examples", "fuzz", "docs", "data", ".github", ".ci", ".cargo"];
/// Folders whose files tools write.
const SKIPPED: &[&str] = &["target", "corpus", "artifacts", "results", "node_modules"];

/// A text file.
#[derive(Debug)]
pub(super) struct TextFile {
    /// The path from the repository's root, with slashes.
    pub(super) path: String,
    /// The content.
    pub(super) text: String,
}

/// The text files of the repository, sorted by path. Golden files are among them, results of benchmarks are
/// not.
pub(super) fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    for folder in FOLDERS {
        walk(root, &root.join(folder), &mut files)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Adds the files of a folder and of the folders in it.
fn walk(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    collect(root, folder, files)?;
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !SKIPPED.contains(&name) {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

/// Adds the files that lie in the folder itself.
fn collect(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.is_file() && is_text(&path) {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push(TextFile { path: shown.replace('\\', "/"), text });
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending)) || path.ends_with(".ci/run")
}

/// The folders of the crates and of the test tools.
pub(super) fn packages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut packages = Vec::new();
    for parent in ["crates", "tools"].map(|name| root.join(name)) {
        for entry in std::fs::read_dir(&parent).with_context(|| format!("listing {}", parent.display()))? {
            packages.push(entry?.path());
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_documents_and_scripts_are_text_files() {
        let files = text_files(&crate::root()).unwrap();
        let has = |path: &str| files.iter().any(|file| file.path == path);
        for path in ["README.md", "Cargo.toml", "docs/runtime.md", ".ci/run", ".github/workflows/ci.yml"] {
            assert!(has(path), "{path}");
        }
        assert!(has("xtask/src/tidy/files.rs") && has("xtask/src/gpu_archive/run.sh"));
        assert!(!files.iter().any(|file| file.path.contains("target/") || file.path.contains("results/")));
    }
}
