//! `cargo xtask onnx-models`: runs ONNX models that Python packages ship, compares the outputs with those of
//! onnxruntime, and times both in turns.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::onnx_suite::{finish, python_in};

/// The program that the models are compared with, and the package of its arrays.
const PEER: [&str; 2] = ["onnxruntime==1.32.0", "numpy"];
/// The packages that ship models.
const PACKAGES: [&str; 4] =
    ["rapidocr-onnxruntime==1.4.4", "nudenet==3.4.2", "silero-vad==6.2.3", "magika==1.0.3"];

/// The arguments of `cargo xtask onnx-models`.
#[derive(clap::Args)]
pub(crate) struct OnnxModelsArgs {
    /// Threads that compute.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Times at which each program runs a model, in turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compare with tract too, which takes minutes to build.
    #[arg(long)]
    tract: bool,
    /// Run models only whose name contains one of these texts, which commas separate.
    #[arg(long, default_value = "")]
    filter: String,
}

pub(crate) fn run(args: &OnnxModelsArgs) -> Result<()> {
    let folder = xtask::root().join("target/onnx-models");
    let python = python_in(&folder, &PEER)?;
    let packages = packages(&folder, &python)?;
    let program = program()?;
    let script = xtask::root().join("crates/arrayjit-onnx/tests/models/compare.py");
    let mut compare = Command::new(python);
    compare.arg(script).arg(&packages).arg(program).args(["--threads", &args.threads.to_string()]);
    compare.args(["--rounds", &args.rounds.to_string(), "--filter", &args.filter]);
    if args.tract {
        compare.arg("--tract").arg(tract()?);
    }
    finish(&mut compare, &packages)
}

/// The program that runs models with tract, built for speed.
fn tract() -> Result<PathBuf> {
    let (folder, target) = (
        xtask::root().join("crates/arrayjit-onnx/tests/models/tract"),
        xtask::root().join("target/onnx-models/tract"),
    );
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--locked"]);
    build.current_dir(folder).env("CARGO_TARGET_DIR", &target);
    finish(&mut build, &target)?;
    Ok(target.join("release").join(format!("tract-run{}", std::env::consts::EXE_SUFFIX)))
}

/// The folder with the packages, which are fetched once.
fn packages(folder: &std::path::Path, python: &std::path::Path) -> Result<PathBuf> {
    let packages = folder.join("packages");
    if !packages.exists() {
        // Renamed when it is whole, so that an interrupted run leaves no part of it.
        let partial = folder.join("partial");
        let mut fetch = Command::new(python);
        fetch.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]).arg(&partial).args(PACKAGES);
        finish(&mut fetch, &partial)?;
        std::fs::rename(&partial, &packages)?;
    }
    Ok(packages)
}

/// The program `onnx-run`, built for speed.
fn program() -> Result<PathBuf> {
    let target = xtask::root().join("target");
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--profile", "measure", "-p", "arrayjit-onnx", "--bin", "onnx-run"]);
    build.current_dir(xtask::root()).env("CARGO_TARGET_DIR", &target);
    finish(&mut build, &target)?;
    Ok(target.join("measure").join(format!("onnx-run{}", std::env::consts::EXE_SUFFIX)))
}
