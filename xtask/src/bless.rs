//! `cargo xtask bless`: rewrites the expected texts of the corpus and of tests with expected texts in their
//! source.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Options of `cargo xtask bless`.
#[derive(clap::Args)]
pub(crate) struct BlessArgs {
    /// The crates whose tests have expected texts.
    #[arg(default_values = ["filetests", "lowered-ir", "assignments", "assignment-text", "codegen-cranelift", "codegen-ptx", "codegen-wgsl"])]
    crates: Vec<String>,
}

/// Runs the tests of the crates with blessing switched on.
pub(crate) fn run(args: &BlessArgs) -> Result<()> {
    for name in &args.crates {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(xtask::root()).args(["test", "--quiet", "-p", name]);
        // `BLESS` is for the corpus, `UPDATE_EXPECT` for texts in the source.
        let status = command.env("BLESS", "1").env("UPDATE_EXPECT", "1").status();
        if !status.with_context(|| format!("cannot test {name}"))?.success() {
            bail!("tests of {name} still fail: what they check is more than an expected text");
        }
    }
    Ok(())
}
