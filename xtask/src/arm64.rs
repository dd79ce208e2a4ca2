//! `cargo xtask arm64`: builds and tests for ARM64 on an x86-64 machine, with QEMU.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::arm64_root;

use crate::arm64_count;

/// Options of `cargo xtask arm64`.
#[derive(clap::Args)]
pub(crate) struct Arm64Args {
    /// Print before each line on standard error how many ARM64 instructions ran since the line before.
    #[arg(long)]
    count: bool,
    /// Run a program of the system instead of its cargo.
    #[arg(long)]
    run: bool,
    /// A Debian package that the program needs; it is installed in the system if it is missing.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// The arguments of cargo: `test -p microkernels`, `build -p digits --release`, `run -p digits`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Makes the system that builds for ARM64 if it is missing, and runs its cargo.
pub(crate) fn run(args: &Arm64Args) -> Result<()> {
    if let Some(package) = &args.package {
        arm64_root::ensure_package(package)?;
    }
    if !args.run {
        download()?;
    }
    let program = (!args.run).then(|| "cargo".to_owned());
    let words: Vec<String> = program.into_iter().chain(args.cargo.iter().cloned()).collect();
    if args.count { arm64_count::run(&words) } else { arm64_root::run(&words) }
}

/// Downloads the crates that this repository needs for ARM64, if they are missing. The system's own cargo
/// cannot: it has no certificates, and does not know the settings of this machine's cargo.
fn download() -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["fetch", "--quiet", "--target", "aarch64-unknown-linux-gnu"]);
    let status = cargo.current_dir(xtask::root()).status().context("starting cargo")?;
    ensure!(status.success(), "`cargo fetch` ended with {status}");
    Ok(())
}
