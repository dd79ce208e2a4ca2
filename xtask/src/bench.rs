//! `cargo xtask bench …`: builds the benchmark program and hands its arguments on.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `[--backend NAME] [--filter S] [--threads N] [--against FILE] [--json FILE] [--smoke]`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the benchmarks in release mode, from the caller's folder so that relative files are the caller's.
pub(crate) fn run(args: &Args) -> Result<()> {
    let manifest = xtask::root().join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "-p", "benches", "--manifest-path"]).arg(manifest).arg("--");
    let status = command.args(&args.rest).status().context("starting cargo")?;
    if !status.success() {
        bail!("the benchmarks ended with {status}");
    }
    Ok(())
}
