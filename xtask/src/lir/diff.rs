//! `cargo xtask lir diff`: compares two dumps, which are files or folders of `dump_folder`.
//!
//! Routines are compared in the printer's form, so spacing and comments do not matter, nor do the inputs of a
//! capsule or another test file. In folders, files of the same relative path are compared, in the order of
//! their names, which is the order of the passes: the first difference is that of the first pass that did
//! something else.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use filetests::File;
use lowered_ir::text::print;
use similar::{ChangeTag, TextDiff};

/// The differences between two dumps in words; empty if there is none.
///
/// # Errors
///
/// A path that cannot be read, a file with a folder, and a file that is no `.lir` text.
pub(super) fn diff(old: &Path, new: &Path) -> Result<String> {
    ensure!(
        old.is_dir() == new.is_dir(),
        "{} and {} are a file and a folder: expected two files or two folders",
        old.display(),
        new.display()
    );
    if !old.is_dir() {
        return files(&old.display().to_string(), old, new);
    }
    let (before, after) = (dumps(old, old)?, dumps(new, new)?);
    let mut text = String::new();
    for path in before.union(&after) {
        let name = path.display().to_string();
        text += &match (before.contains(path), after.contains(path)) {
            (true, true) => files(&name, &old.join(path), &new.join(path))?,
            (true, false) => format!("{name}: only in {}\n", old.display()),
            _ => format!("{name}: only in {}\n", new.display()),
        };
    }
    Ok(text)
}

/// The `.lir` files below a folder, by their paths relative to the root.
fn dumps(root: &Path, folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(dumps(root, &path)?);
        } else if path.extension().is_some_and(|extension| extension == "lir") {
            found.insert(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(found)
}

/// The changed lines of a file, below its name, each with the number of the line in the printer's form.
fn files(name: &str, old: &Path, new: &Path) -> Result<String> {
    let (old, new) = (printed(old)?, printed(new)?);
    let changes = TextDiff::from_lines(&old, &new);
    let line = |change: similar::Change<&str>| {
        let (sign, at) = match change.tag() {
            ChangeTag::Equal => return None,
            ChangeTag::Delete => ('-', change.old_index()),
            ChangeTag::Insert => ('+', change.new_index()),
        };
        Some(format!("{:>5} {sign} {}", at.unwrap_or(0) + 1, change.value()))
    };
    let lines: String = changes.iter_all_changes().filter_map(line).collect();
    Ok(if lines.is_empty() { lines } else { format!("{name}:\n{lines}") })
}

fn printed(path: &Path) -> Result<String> {
    let file = File::read(path).with_context(|| format!("reading {}", path.display()))?;
    let routines = file.routines().with_context(|| format!("in {}", path.display()))?;
    Ok(routines.iter().map(|parsed| print(&parsed.routine)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLE: &str = "routine @r strict {
  node %0 \"y\" f32[4] on_device
  for i0 in 0..4 {
    %0[i0] := 2.0f32
  }
}
";

    fn write(folder: &Path, file: &str, text: &str) -> PathBuf {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room for a folder");
        fs::write(&path, text).expect("room for a file");
        path
    }

    #[test]
    fn spacing_and_comments_are_no_difference() {
        let folder = tempfile::tempdir().expect("a folder");
        let a = write(folder.path(), "a.lir", DOUBLE);
        let b = write(folder.path(), "b.lir", &format!("; a comment\n{}", DOUBLE.replace("  ", " ")));
        assert_eq!(diff(&a, &b).expect("both parse"), "");
    }

    #[test]
    fn a_capsule_is_compared_with_a_dump() {
        let folder = tempfile::tempdir().expect("a folder");
        let a = write(folder.path(), "a.lir", DOUBLE);
        let b = write(folder.path(), "b.lir", &format!("test run\n{DOUBLE}; run: => %0 = fill(2)\n"));
        assert_eq!(diff(&a, &b).expect("both parse"), "");
        let b = write(folder.path(), "b.lir", &format!("test run\n{}", DOUBLE.replace("2.0", "3.0")));
        assert!(diff(&a, &b).expect("both parse").contains("%0[i0] := 3.0f32"));
    }

    #[test]
    fn changed_lines_are_shown_by_file_in_the_order_of_the_passes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        for pass in ["00-lower", "01-cse", "02-dce"] {
            write(&old, &format!("r/{pass}.lir"), DOUBLE);
        }
        write(&new, "r/00-lower.lir", DOUBLE);
        write(&new, "r/01-cse.lir", &DOUBLE.replace("2.0", "3.0"));
        let text = diff(&old, &new).expect("all parse");
        let expected = format!(
            "r/01-cse.lir:\n    4 -     %0[i0] := 2.0f32\n    4 +     %0[i0] := 3.0f32\nr/02-dce.lir: only in {}\n",
            old.display()
        );
        assert_eq!(text, expected);
        assert!(diff(&old, &new.join("r/00-lower.lir")).is_err(), "a folder and a file");
    }
}
