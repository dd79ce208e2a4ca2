//! Builds programs in a profile without symbols, and finds them in Cargo's messages.

use std::{
    collections::BTreeSet,
    io::BufReader,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Artifact, Message, TargetKind};

/// Programs by name.
type Programs = Vec<(String, PathBuf)>;

/// The test programs that need a GPU, by the folder of their package.
const TESTS: [(&str, &[&str]); 4] = [
    ("device-cuda", &["driver", "lost"]),
    ("device-wgpu", &["driver"]),
    ("arrayjit", &["cuda", "wgpu"]),
    ("arrayjit-collectives", &["nccl_group"]),
];

/// Tests that need a GPU, named after their package and program, as `device-cuda-driver`.
pub(super) fn tests() -> Result<Programs> {
    let mut arguments = vec!["test", "--no-run"];
    arguments.extend([
        "-p",
        "device-cuda",
        "-p",
        "device-wgpu",
        "-p",
        "arrayjit",
        "-p",
        "arrayjit-collectives",
    ]);
    arguments.extend(["--features", "arrayjit/cuda,arrayjit/wgpu,arrayjit-collectives/cuda"]);
    let names: BTreeSet<&str> = TESTS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    arguments.extend(names.into_iter().flat_map(|name| ["--test", name]));
    let is_listed = |artifact: &Artifact| {
        let listed = TESTS.iter().find(|(name, _)| Some(*name) == folder(artifact));
        listed.is_some_and(|(_, names)| names.contains(&artifact.target.name.as_str()))
    };
    let tests = built(&arguments, |artifact| {
        artifact.target.kind.contains(&TargetKind::Test) && is_listed(artifact)
    })?;
    let expected: usize = TESTS.iter().map(|(_, names)| names.len()).sum();
    ensure!(tests.len() == expected, "expected {expected} tests, built {}", tests.len());
    Ok(tests)
}

/// The benchmarks and the example `digits`. They are built one after the other, because Cargo would unify
/// their features in one build.
pub(super) fn programs() -> Result<Programs> {
    let is = |name: &'static str| {
        move |artifact: &Artifact| artifact.target.name == name && artifact.executable.is_some()
    };
    let mut programs = Programs::new();
    for (name, features) in
        [("digits", "digits/cuda,digits/wgpu"), ("benches", "benches/cublas,benches/wgpu")]
    {
        programs.extend(built(&["build", "-p", name, "--features", features], is(name))?);
    }
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

/// The file of a target, with the target's name instead of Cargo's file name. Programs of tests have the name
/// of their package's folder in front, since packages have tests of the same name.
fn program(artifact: Artifact) -> Result<(String, PathBuf)> {
    let package = folder(&artifact).unwrap_or_default().to_owned();
    let Artifact { target, executable, filenames, .. } = artifact;
    match executable {
        Some(path) if target.kind.contains(&TargetKind::Test) => {
            Ok((format!("{package}-{}", target.name), path.into()))
        }
        Some(path) => Ok((target.name, path.into())),
        None => {
            let path = filenames.into_iter().next().context("a target without a file")?;
            Ok((path.file_name().context("a file without a name")?.to_owned(), path.into()))
        }
    }
}

/// The folder of a target's package.
fn folder(artifact: &Artifact) -> Option<&str> {
    artifact.manifest_path.parent()?.file_name()
}
