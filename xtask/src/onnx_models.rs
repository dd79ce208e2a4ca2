//! `cargo xtask onnx-models`: runs ONNX models that Python packages ship, compares the outputs with those of
//! onnxruntime, and times both in turns.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

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
    /// Build the example of `arrayjit-aot` with the classifier of PP-OCR too, and check its bits, its size
    /// and its start; link a C program with products.
    #[arg(long)]
    ahead: bool,
    /// Run the classifier under QEMU too, compiled for ARM64 with and without products; as root, because this
    /// makes the system of `cargo xtask arm64`.
    #[arg(long, requires = "ahead")]
    arm64: bool,
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
    finish(&mut compare, &packages)?;
    if args.ahead { run_ahead(&folder, &packages, args.arm64) } else { Ok(()) }
}

/// Compiles the classifier of PP-OCR ahead of time, and tests the program that contains it, and a C program.
fn run_ahead(folder: &Path, packages: &Path, arm64: bool) -> Result<()> {
    const MODEL: &str = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx";
    let model = folder.join(MODEL);
    if !model.exists() {
        let wheels = std::fs::read_dir(packages)?.collect::<Result<Vec<_>, _>>()?;
        let is_of_ocr = |name: &OsStr| name.to_string_lossy().starts_with("rapidocr_onnxruntime");
        let wheel =
            wheels.iter().find(|wheel| is_of_ocr(&wheel.file_name())).context("the package of PP-OCR")?;
        let mut extract = Command::new("python3");
        extract.args(["-m", "zipfile", "-e"]).args([&wheel.path(), folder]);
        finish(&mut extract, folder)?;
    }
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "-p", "arrayjit-aot", "--test", "it"]);
    if arm64 {
        test.args(["--features", "cross"]);
    }
    test.args(["--", "the_example_runs_the_model_of_a_file", "library_with_products"]);
    if arm64 {
        test.arg("the_model_of_a_file_has_the_bits_of_x86_64");
    }
    test.args(["--ignored", "--nocapture"]).current_dir(xtask::root());
    test.env("AOT_MODEL", &model).env("AOT_SIZES", "x[0]=1 x[2]=48 x[3]=192");
    finish(&mut test, &model)
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
fn packages(folder: &Path, python: &Path) -> Result<PathBuf> {
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
