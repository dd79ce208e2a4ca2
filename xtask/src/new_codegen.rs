//! `cargo xtask new-codegen`: writes a crate with a code generator that has level L0.
//!
//! The crate lies outside of this workspace. Its renderer is a text of this module; the half that compiles
//! and loads C is that of `examples/codegen-c`, without its functions for higher levels.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The files of the crate and their texts, in which `NAME`, `IDENT` and `ROOT` are replaced.
const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("new_codegen/Cargo.toml.txt")),
    ("Cargo.lock", include_str!("../../examples/codegen-c/Cargo.lock")),
    ("rustfmt.toml", include_str!("../../rustfmt.toml")),
    ("src/lib.rs", include_str!("new_codegen/lib.rs.txt")),
    ("src/render.rs", include_str!("new_codegen/render.rs.txt")),
    ("src/compile.rs", include_str!("../../examples/codegen-c/src/compile.rs")),
    ("src/prelude.h", include_str!("../../examples/codegen-c/src/prelude.h")),
    ("tests/conformance.rs", include_str!("new_codegen/conformance.rs.txt")),
];

/// Options of `cargo xtask new-codegen`.
#[derive(clap::Args)]
pub struct NewCodegenArgs {
    /// The name of the crate and of the code generator: lower-case letters, digits and `-`.
    name: String,
    /// The folder in which the crate's folder is made.
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

/// Writes the crate and says what to do next.
///
/// # Errors
///
/// A name that Cargo does not take, a folder that exists, or a file that cannot be written.
pub fn run(args: &NewCodegenArgs) -> Result<()> {
    let folder = create(&args.name, &args.out)?;
    #[allow(clippy::print_stdout, reason = "a command line program talks on standard output")]
    {
        println!("{} is written. Next:", folder.display());
        println!("  cd {} && cargo test", folder.display());
        println!("  open src/render.rs and docs/writing-a-codegen.md");
    }
    Ok(())
}

/// Writes the crate `name` into a new folder of that name below `out`; returns the folder.
///
/// # Errors
///
/// The errors of [`run`].
pub fn create(name: &str, out: &Path) -> Result<PathBuf> {
    check_name(name)?;
    let folder = std::path::absolute(out)?.join(name);
    if folder.exists() {
        bail!("{} exists; choose another name or another --out", folder.display());
    }
    for (path, text) in FILES {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, instance(text, name)).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(folder)
}

/// Cargo takes more names; these are identifiers of Rust as well if `-` becomes `_`.
fn check_name(name: &str) -> Result<()> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_word) {
        return Ok(());
    }
    bail!("`{name}` is no name of a crate: expected lower-case letters, digits and `-`, a letter first")
}

/// The text of a file for a crate of that name. Lines that mention `wide` belong to the second level of
/// `examples/codegen-c`.
fn instance(text: &str, name: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("wide::") && !line.contains("crate::wide"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    text.replace("codegen-c\"", &format!("{name}\""))
        .replace("codegen-c-\"", &format!("{name}-\""))
        .replace("CODEGEN: &str = \"c\"", &format!("CODEGEN: &str = \"{name}\""))
        .replace("IDENT", &name.replace('-', "_"))
        .replace("NAME", name)
        .replace("ROOT", &crate::root().display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for name in ["mine", "my-codegen2"] {
            check_name(name).unwrap();
        }
        for name in ["", "Mine", "2nd", "my codegen", "my_codegen", "-x", "../x"] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}` is no name of a crate: expected")), "{error}");
        }
    }

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let out = tempfile::tempdir().unwrap();
        let folder = create("mine", out.path()).unwrap();
        let before = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        assert!(create("mine", out.path()).unwrap_err().to_string().contains("exists; choose another name"));
        assert_eq!(fs::read_to_string(folder.join("src/lib.rs")).unwrap(), before);
    }

    #[test]
    fn no_placeholder_and_no_second_level_is_left() {
        for (path, text) in FILES {
            let text = instance(text, "mine");
            for word in ["NAME", "IDENT", "ROOT", "wide::", "codegen-c\"", "codegen-c-"] {
                assert!(!text.contains(word), "{path} contains {word}");
            }
        }
    }
}
