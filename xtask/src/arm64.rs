//! `cargo xtask arm64`: builds and tests for ARM64 on an x86-64 machine, with QEMU.

use anyhow::Result;
use xtask::arm64_root;

use crate::arm64_count;

/// Options of `cargo xtask arm64`.
#[derive(clap::Args)]
pub(crate) struct Arm64Args {
    /// Print before each line on standard error how many ARM64 instructions ran since the line before.
    #[arg(long)]
    count: bool,
    /// The arguments of cargo: `test -p microkernels`, `build -p digits --release`, `run -p digits`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Makes the system that builds for ARM64 if it is missing, and runs its cargo.
pub(crate) fn run(args: &Arm64Args) -> Result<()> {
    let words: Vec<String> = ["cargo".to_owned()].into_iter().chain(args.cargo.iter().cloned()).collect();
    if args.count { arm64_count::run(&words) } else { arm64_root::run(&words) }
}
