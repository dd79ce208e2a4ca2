//! The crates that are meant for a registry: all of the workspace but those with `publish = false`.
//!
//! `cargo xtask package` packs each of them as a registry would get it. Cargo rejects a package whose
//! dependencies have no version or are not published; `tidy` checks that the manifest has the other fields
//! that registries show.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

/// A crate for a registry.
struct Package {
    /// The crate's name.
    name: String,
    /// The folder of its manifest.
    folder: PathBuf,
    /// The fields of the manifest that registries show and that are missing.
    missing: Vec<&'static str>,
}

/// The published packages of the workspace, by name.
fn published() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().current_dir(crate::root()).no_deps().exec()?;
    let published = metadata.packages.into_iter().filter(|package| package.publish.is_none());
    let mut packages: Vec<Package> = published.map(Package::new).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

impl Package {
    fn new(package: cargo_metadata::Package) -> Package {
        let present = [
            ("description", package.description.is_some()),
            ("license", package.license.is_some()),
            ("repository", package.repository.is_some()),
            ("readme", package.readme.is_some()),
            ("rust-version", package.rust_version.is_some()),
            ("keywords", !package.keywords.is_empty()),
            ("categories", !package.categories.is_empty()),
        ];
        Package {
            name: package.name.to_string(),
            folder: package.manifest_path.parent().map(Into::into).unwrap_or_default(),
            missing: present.into_iter().filter(|(_, is_there)| !is_there).map(|(field, _)| field).collect(),
        }
    }
}

/// Published crates without a field that registries show, as findings.
pub(crate) fn check() -> Result<Vec<String>> {
    let root = crate::root();
    let finding = |package: Package| {
        let folder = package.folder.strip_prefix(&root).unwrap_or(Path::new("")).display().to_string();
        let missing = package.missing.into_iter();
        missing.map(move |field| format!("{folder}/Cargo.toml: a published crate without `{field}`"))
    };
    Ok(published()?.into_iter().flat_map(finding).collect())
}

/// Packs every published crate under `target/package`. With `verify`, also builds each from its package
/// alone.
///
/// # Errors
///
/// Cargo rejects a package, with its message on standard error.
pub fn package(verify: bool) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    // A package is made of the files as they are, so that the command works before a commit.
    command.current_dir(crate::root()).args(["package", "--quiet", "--allow-dirty"]);
    if !verify {
        command.arg("--no-verify");
    }
    command.args(published()?.iter().flat_map(|package| ["--package".to_owned(), package.name.clone()]));
    let status = command.status().context("running `cargo package`")?;
    if status.success() { Ok(()) } else { bail!("`cargo package` ended with {status}") }
}
