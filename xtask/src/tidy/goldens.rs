//! A golden file that a code generator writes is short enough to be reviewed.

use anyhow::Result;

use super::files::{TextFile, text_files};

/// The folder of the corpus, whose files are golden files and their `.lir` files.
const CORPUS: &str = "tools/filetests/lir/";
/// The most lines of a golden file.
const LINES: usize = 300;

/// Findings about long golden files.
pub(super) fn check() -> Result<Vec<String>> {
    Ok(text_files(&crate::root())?.iter().filter_map(finding).collect())
}

fn finding(file: &TextFile) -> Option<String> {
    let is_golden = file.path.starts_with(CORPUS) && !file.path.ends_with(".lir");
    let lines = file.text.lines().count();
    (is_golden && lines > LINES)
        .then(|| format!("{}: {lines} lines, expected at most {LINES}; split the `.lir` file", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_golden_files_are_found() {
        let found = |path: &str, lines| finding(&TextFile { path: path.into(), text: "x\n".repeat(lines) });
        assert_eq!(found("tools/filetests/lir/run/a.ptx", LINES), None);
        assert!(found("tools/filetests/lir/run/a.ptx", LINES + 1).unwrap().contains("301 lines"));
        assert_eq!(found("tools/filetests/lir/run/a.lir", LINES + 1), None);
    }
}
