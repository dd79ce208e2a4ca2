//! `cargo xtask lir bisect`, `replay` and `reduce`: build the program `lir-replay` with the backends that are
//! named, and run it. This program has no backend, so that the other tasks build without any.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Backends that are features of the program.
const FEATURES: [&str; 2] = ["wgpu", "cuda"];

/// Runs a task of the program on a file. `option` has the names of backends, if there are any.
pub(super) fn run(
    task: &str,
    file: &Path,
    option: &str,
    backends: &[String],
    settings: &[String],
) -> Result<()> {
    let manifest = xtask::root().join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "-p", "lir-replay", "--manifest-path"]).arg(manifest);
    command.arg("--features").arg(features(backends).join(",")).arg("--").arg(task).arg(file);
    if !backends.is_empty() {
        command.arg(option).arg(backends.join(","));
    }
    let status = command.args(settings).status().context("starting cargo")?;
    if status.success() { Ok(()) } else { bail!("lir-replay ended with {status}") }
}

/// The features of the backends, of which `auto` may open any.
fn features(backends: &[String]) -> Vec<&'static str> {
    let is_needed = |feature: &&str| backends.iter().any(|name| name == feature || name == "auto");
    FEATURES.into_iter().filter(is_needed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_that_are_features_are_built_in() {
        let of = |names: &[&str]| features(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["multicore", "cuda"]), ["cuda"]);
        assert_eq!(of(&["inline"]), [""; 0]);
        assert_eq!(of(&["auto"]), FEATURES);
    }
}
