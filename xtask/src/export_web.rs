//! `cargo xtask export-web …`: builds the exporter of web pages and runs it with these arguments.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Options of `cargo xtask export-web`.
#[derive(clap::Args)]
pub(crate) struct ExportWebArgs {
    /// `FILE.lir | --example digits [--out DIR] [--check]`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the exporter in the caller's folder, so that relative paths work.
pub(crate) fn run(args: &ExportWebArgs) -> Result<()> {
    let manifest = xtask::root().join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "-p", "web", "--manifest-path"]).arg(manifest).arg("--");
    let status = command.args(&args.rest).status().context("starting cargo")?;
    if !status.success() {
        bail!("the exporter ended with {status}");
    }
    Ok(())
}
