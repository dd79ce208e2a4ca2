//! Builds programs in a profile without symbols, and finds them in Cargo's messages.

use std::{
    io::BufReader,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Artifact, Message, TargetKind};

/// Programs by name.
type Programs = Vec<(String, PathBuf)>;

/// The test programs of the CUDA driver and of the backend.
const TESTS: [&str; 10] =
    ["code", "driver", "logging", "lost", "open", "peers", "sequence", "suite", "cuda", "cuda_backend"];

/// Tests that need a GPU.
pub(super) fn tests() -> Result<Programs> {
    let mut arguments =
        vec!["test", "--no-run", "-p", "device-cuda", "-p", "arrayjit", "--features", "arrayjit/cuda"];
    arguments.extend(TESTS.iter().flat_map(|name| ["--test", name]));
    let tests = built(&arguments, |artifact| artifact.target.kind.contains(&TargetKind::Test))?;
    ensure!(tests.len() == TESTS.len(), "expected {} tests, built {}", TESTS.len(), tests.len());
    Ok(tests)
}

/// The benchmarks and the example `digits`. They are built one after the other, because Cargo would unify
/// their features in one build.
pub(super) fn programs() -> Result<Programs> {
    let is = |name: &'static str| {
        move |artifact: &Artifact| artifact.target.name == name && artifact.executable.is_some()
    };
    let main_job = ["build", "-p", "digits", "--features", "digits/cuda"];
    let mut programs = built(&main_job, is("digits"))?;
    programs.extend(built(&["build", "-p", "benches", "--features", "benches/cublas"], is("benches"))?);
    Ok(programs)
}

/// The library that replaces NVIDIA's driver in tests of failures.
pub(super) fn driver() -> Result<Programs> {
    built(&["build", "-p", "device-cuda", "--example", "fake_cuda"], |artifact| {
        artifact.target.name == "fake_cuda"
    })
}

/// Runs Cargo and returns the wanted programs that it built.
fn built(arguments: &[&str], is_wanted: impl Fn(&Artifact) -> bool) -> Result<Programs> {
    println!("cargo {}", arguments.join(" "));
    let mut cargo = Command::new("cargo")
        .args(arguments)
        .args(["--quiet", "--profile", "gpu-archive", "--message-format", "json-render-diagnostics"])
        .current_dir(xtask::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo")?;
    let output = cargo.stdout.take().context("a process without output")?;
    let mut programs = Programs::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        if is_wanted(&artifact) {
            programs.push(program(artifact)?);
        }
    }
    let status = cargo.wait()?;
    if !status.success() {
        bail!("cargo {} ended with {status}", arguments.join(" "));
    }
    Ok(programs)
}

/// The file of a target, with the target's name instead of Cargo's file name.
fn program(artifact: Artifact) -> Result<(String, PathBuf)> {
    match artifact.executable {
        Some(path) => Ok((artifact.target.name, path.into())),
        None => {
            let path = artifact.filenames.into_iter().next().context("a target without a file")?;
            Ok((path.file_name().context("a file without a name")?.to_owned(), path.into()))
        }
    }
}
