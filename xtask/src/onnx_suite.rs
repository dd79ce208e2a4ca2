//! `cargo xtask onnx-suite`: writes the archives of the node tests of the Python package `onnx`, and of tests
//! of operators of `com.microsoft` and `ai.onnx.ml`, which the tests of `arrayjit-onnx` run.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The packages: the first has node tests, and the other computes the results of the others.
const PACKAGES: &[&str] = &["onnx==1.23.2", "onnxruntime==1.32.0", "numpy"];

pub(crate) fn run() -> Result<()> {
    let python = python_in(&xtask::root().join("target/onnx-suite"), PACKAGES)?;
    for (script, archive) in [
        ("generate.py", "onnx-node-tests.tar.xz"),
        ("generate_microsoft.py", "microsoft-operator-tests.tar.xz"),
        ("generate_ml.py", "ml-operator-tests.tar.xz"),
    ] {
        let script = xtask::root().join("crates/arrayjit-onnx/tests/suite").join(script);
        let archive = xtask::root().join("data").join(archive);
        finish(Command::new(&python).arg(script).arg(&archive), &archive)?;
    }
    Ok(())
}

/// A Python with packages, in an environment of its own below `folder`.
pub(crate) fn python_in(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        finish(Command::new("python3").args(["-m", "venv"]).arg(&venv), &venv)?;
    }
    finish(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages), &venv)?;
    Ok(python)
}

/// Runs a command that makes a file or a folder.
pub(crate) fn finish(command: &mut Command, folder: &Path) -> Result<()> {
    let status = command.status().with_context(|| format!("making {}", folder.display()))?;
    if !status.success() {
        bail!("making {} ended with {status}: {command:?}", folder.display());
    }
    Ok(())
}
