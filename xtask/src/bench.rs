//! `cargo xtask bench …`: builds the benchmark program with the features that its arguments need, and runs it
//! with these arguments.

use std::{process::Command, thread};

use anyhow::{Context, Result, bail};

use crate::peers_venv;

/// Options of `cargo xtask bench`, which `cargo xtask bench -- --help` explains.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// `[--backend NAME] [--filter S,..] [--threads N] [--peers NAME,..] [--against FILE] [--json FILE]
    /// [--tune [FILE]] [--report FILE] [--record] [--memory] [--smoke] [--keep-going] [--describe]
    /// [--kernels] [--kernels-page FILE] [--resume] [--idle] [--scaling FILE,..]`; `-- --help` builds the
    /// benchmarks, which explain them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Peers that are features of the benchmark program.
const RUST: [&str; 4] = ["gemm", "matrixmultiply", "ndarray", "candle-core"];

/// Runs the benchmarks optimized, in the caller's folder so that relative paths work.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let peers = peers(&args.rest);
    let mut features: Vec<&str> = RUST.into_iter().filter(|name| is_asked(&peers, name)).collect();
    if let Some(backend @ ("wgpu" | "cuda")) = value(&args.rest, "--backend") {
        features.push(backend);
    }
    // cuBLAS is requested only by its own name, since `all` means the peers on this machine's cores.
    if peers.contains(&"cublas") {
        features.push("cublas");
    }
    let mut command = Command::new("cargo");
    let profile = if args.rest.iter().any(|arg| arg == "--smoke") { "release" } else { "measure" };
    command
        .args(["run", "--quiet", "--profile", profile])
        .args(program(&args.rest, &features))
        .args(&args.rest);
    if RUST.iter().any(|name| is_asked(&peers, name)) {
        // These libraries read their number of threads from the environment.
        let threads = threads(&args.rest)?.to_string();
        command.env("MATMUL_NUM_THREADS", &threads).env("RAYON_NUM_THREADS", &threads);
    }
    let python: Vec<&str> = peers_venv::PEERS.into_iter().filter(|name| is_asked(&peers, name)).collect();
    if !python.is_empty() {
        command.env("BENCH_PYTHON", peers_venv::ensure(&python)?);
    }
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("the benchmarks ended with {status}");
    }
    Ok(())
}

/// The arguments of Cargo for the program with these features: the benchmarks, or those of the workspace that
/// has the backend `c`.
fn program(args: &[String], features: &[&str]) -> Vec<String> {
    let needs_c = peers(args).contains(&"c") || value(args, "--backend") == Some("c");
    let (manifest, prefix, name) = match needs_c {
        true => ("examples/codegen-c/backend/Cargo.toml", "benches/", ["--bin", "c-bench"]),
        false => ("Cargo.toml", "", ["-p", "benches"]),
    };
    let manifest = xtask::root().join(manifest).display().to_string();
    let features = features.iter().map(|feature| format!("{prefix}{feature}")).collect::<Vec<_>>().join(",");
    let [option, name] = name.map(String::from);
    vec![option, name, "--manifest-path".into(), manifest, "--features".into(), features, "--".into()]
}

/// The names after every `--peers`.
fn peers(args: &[String]) -> Vec<&str> {
    value(args, "--peers").map_or_else(Vec::new, |list| list.split(',').collect())
}

fn is_asked(peers: &[&str], name: &str) -> bool {
    peers.iter().any(|peer| *peer == name || *peer == "all")
}

/// The number of threads that compute.
fn threads(args: &[String]) -> Result<usize> {
    let given = value(args, "--threads").unwrap_or("1");
    let count: usize = given.parse().with_context(|| format!("`--threads {given}` is not a number"))?;
    Ok(if count == 0 { thread::available_parallelism()?.get() } else { count })
}

/// The value of an option: the next argument, or the text after `=`.
fn value<'a>(args: &'a [String], option: &str) -> Option<&'a str> {
    let position = args.iter().position(|arg| arg.split('=').next() == Some(option))?;
    match args[position].split_once('=') {
        Some((_, value)) => Some(value),
        None => args.get(position + 1).map(String::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_c_is_in_a_program_of_its_own() {
        let args = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
        let ours = program(&args(&["--peers", "gemm"]), &["gemm"]);
        assert_eq!((&ours[..2], &*ours[5]), (&["-p".to_owned(), "benches".to_owned()][..], "gemm"));
        for c in [&["--peers", "gemm,c"][..], &["--backend=c"]] {
            let other = program(&args(c), &["gemm", "ndarray"]);
            assert_eq!((&*other[1], &*other[5]), ("c-bench", "benches/gemm,benches/ndarray"));
            assert!(std::path::Path::new(&other[3]).exists(), "{}", other[3]);
        }
    }

    #[test]
    fn options_have_values_in_either_form() {
        let args = ["--smoke", "--threads=2", "--peers", "gemm,jax"].map(String::from);
        assert_eq!(threads(&args).unwrap(), 2);
        assert_eq!(peers(&args), ["gemm", "jax"]);
        assert_eq!(value(&args, "--backend"), None);
        assert!(is_asked(&["all"], "torch") && !is_asked(&["torch-compile"], "torch"));
        assert!(threads(&["--threads".into(), "x".into()]).is_err());
    }
}
