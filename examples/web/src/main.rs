//! `cargo xtask export-web FILE.lir | --example digits [--out DIR] [--check]`: writes a page, and with
//! `--check` runs it.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use web::{browser::Browser, digits, lir, page::Page};

/// The time limit of a page with `--check`.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Parser)]
#[command(name = "cargo xtask export-web", about = "Writes a page that runs kernels on a browser's WebGPU")]
struct Cli {
    /// A `.lir` file with `; run:` lines
    #[arg(required_unless_present = "example", conflicts_with = "example")]
    file: Option<PathBuf>,
    /// An example of this repository
    #[arg(long)]
    example: Option<Example>,
    /// The folder to write to
    #[arg(long, default_value = "target/web")]
    out: PathBuf,
    /// Open the page in a headless Chromium and say what it reports
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Example {
    /// The network of the digits example, trained here
    Digits,
}

fn main() -> ExitCode {
    sigpipe::reset();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let codegen = codegen_wgsl::wgsl(codegen_wgsl::baseline_caps(), codegen_wgsl::WgslOptions::default());
    let (name, page) = match (&cli.file, cli.example) {
        (Some(file), _) => (stem(file), lir::page(file, &codegen)?),
        (None, Some(Example::Digits)) => {
            ("digits".into(), digits::page(&digits::Options::default(), &codegen)?)
        }
        (None, None) => bail!("expected a `.lir` file or `--example`"),
    };
    let html = page.html()?;
    let path = cli.out.join(name).with_extension("html");
    std::fs::create_dir_all(&cli.out).with_context(|| format!("making `{}`", cli.out.display()))?;
    std::fs::write(&path, &html).with_context(|| format!("writing `{}`", path.display()))?;
    println!("{}: {} kernels, {} bytes", path.display(), page.kernels.len(), html.len());
    if cli.check { check(&page, &html) } else { Ok(()) }
}

fn stem(file: &Path) -> String {
    file.file_stem().map_or_else(|| "page".into(), |stem| stem.to_string_lossy().into_owned())
}

/// Runs the page in a browser. Any outcome but a pass is an error.
fn check(page: &Page, html: &str) -> Result<()> {
    let browser = Browser::find().context("no Chromium is installed; `CHROMIUM` may name one")?;
    let outcome = browser.run(html, PATIENCE)?;
    for line in outcome.complaints() {
        println!("  {line}");
    }
    let passed = outcome.runs.iter().filter(|run| run.status == "pass").count();
    println!(
        "  {}: {passed} of {} runs passed in {:.1} s",
        outcome.adapter,
        outcome.runs.len(),
        outcome.seconds
    );
    ensure!(outcome.status == "pass", "`{}` did not pass", page.title);
    Ok(())
}
