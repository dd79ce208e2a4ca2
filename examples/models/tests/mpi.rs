//! Training over processes of MPI: starts itself under `mpirun`.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(clippy::print_stdout, reason = "ranks print their results for the test that started them")]

#[path = "../../../crates/arrayjit-collectives/tests/support/mpirun.rs"]
mod mpirun;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Result;
use arrayjit_collectives::{BucketSizes, Group, HostGroup, Transport, local, mpi};
use arrayjit_tensor::{Backend, session::Ranks};
use models::char_gpt::{OPTIONS, Options, train_on};

/// The variables that say that a process is a rank: the number of steps, whether the state is sharded,
/// and the checkpoint.
const STEPS: &str = "MODELS_STEPS";
const SHARDED: &str = "MODELS_SHARDED";
const CHECKPOINT: &str = "MODELS_CHECKPOINT";

/// A small GPT, whose gradients fill several buckets.
fn options(steps: usize) -> Options {
    Options { context: 16, width: 16, heads: 2, layers: 2, batch: 8, steps, ..OPTIONS }
}

/// Trains as a rank; returns the bits of the parameters and the losses.
fn train(
    transport: impl Transport,
    steps: usize,
    is_sharded: bool,
    checkpoint: Option<&Path>,
) -> Result<String> {
    let backend = Backend::open("multicore")?;
    let group: Arc<dyn Group> = Arc::new(HostGroup::new(transport, backend.new_stream()?));
    let buckets = BucketSizes { first: 4 << 10, others: 16 << 10 };
    let ranks = Ranks::new(group).buckets(buckets).sharded_optimizer(is_sharded);
    let trained = train_on(&backend, options(steps), Some(ranks), checkpoint)?;
    let weights = trained.to_safetensors()?;
    let digest =
        weights.iter().fold(0u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Ok(format!("{digest:016x} {:?}", trained.losses.last()))
}

fn main() -> ExitCode {
    if let Ok(steps) = std::env::var(STEPS) {
        let checkpoint = std::env::var(CHECKPOINT).ok().map(PathBuf::from);
        let is_sharded = std::env::var(SHARDED).is_ok();
        let body = |transport| train(transport, steps.parse()?, is_sharded, checkpoint.as_deref());
        println!("trained: {}", mpi::run(body).unwrap());
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 2] = [
        ("processes_train_to_the_bits_of_threads", processes_train_to_the_bits_of_threads),
        ("other_processes_go_on_from_a_checkpoint", other_processes_go_on_from_a_checkpoint),
    ];
    mpirun::run_tests(&tests)
}

/// Starts this program on several processes; returns the line that all print.
fn mpirun(ranks: usize, variables: &[(&str, &str)]) -> String {
    let output = mpirun::command(ranks, variables).output().expect("mpirun starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    // `mpirun` gives its processes a terminal, so a line may begin with a progress bar.
    let lines: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once("trained: ")?.1)).collect();
    assert!(lines.len() == ranks && lines.iter().all(|line| *line == lines[0]), "{printed}");
    lines[0].to_owned()
}

/// The line that as many ranks of this process would print.
fn on_threads(ranks: usize, steps: usize) -> String {
    let mut results = local::run(ranks, |transport| train(transport, steps, false, None));
    results.swap_remove(0).unwrap()
}

fn processes_train_to_the_bits_of_threads() {
    let expected = on_threads(4, 12);
    assert_eq!(mpirun(4, &[(STEPS, "12")]), expected);
    assert_eq!(mpirun(4, &[(STEPS, "12"), (SHARDED, "1")]), expected);
}

/// Two processes go on with what four have trained, as two threads do.
fn other_processes_go_on_from_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    let [processes, threads] = paths.each_ref().map(|path| path.to_str().unwrap());
    mpirun(4, &[(STEPS, "6"), (SHARDED, "1"), (CHECKPOINT, processes)]);
    std::fs::copy(processes, threads).unwrap();
    let on_threads = local::run(2, |transport| train(transport, 12, false, Some(Path::new(threads))));
    let expected = on_threads.into_iter().next().unwrap().unwrap();
    assert_eq!(mpirun(2, &[(STEPS, "12"), (CHECKPOINT, processes)]), expected);
}
