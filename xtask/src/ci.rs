//! The stages of continuous integration, for any machine: a table of commands with budgets in minutes.
//!
//! The budgets are for two cores and a clean clone. A stage over its budget is reported but does not fail,
//! because machines differ in speed. The test stage is last, so that the output ends with the test runner's
//! closing lines. The tools that tests of GPU code and of several processes need are installed before
//! anything is compiled; unlike on a developer's machine, a missing tool is an error here.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use xtask::gpu_tools::{
    Tool, cuda_environment, ensure_chromium, ensure_cuda_tools, ensure_lavapipe, ensure_mpi, environment,
};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct CiArgs {
    /// Add the long checks: accuracy over long sweeps, many random programs, the growth of compile time,
    /// 100,000 programs in bounded memory, models trained to their stated accuracy, many routines on the GPU,
    /// the archive of tests for machines with an NVIDIA GPU, and fuzzing and the address sanitizer (both need
    /// a nightly toolchain).
    #[arg(long)]
    full: bool,
    /// Seconds each fuzz target runs under `--full`.
    #[arg(long, default_value_t = 600)]
    fuzz_seconds: u32,
}

/// One command of the gate.
struct Stage {
    name: &'static str,
    minutes: u64,
    command: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Stage {
    fn new(name: &'static str, minutes: u64, command: &str) -> Stage {
        Stage { name, minutes, command: command.split(' ').map(String::from).collect(), env: Vec::new() }
    }

    fn env(mut self, env: impl IntoIterator<Item = (&'static str, String)>) -> Stage {
        self.env.extend(env);
        self
    }
}

/// Runs every stage in order, and stops at the first failure.
pub(crate) fn run(args: &CiArgs) -> Result<()> {
    let gpu = gpu_environment()?;
    if args.full {
        ensure_fuzzer()?;
    }
    let mut stages = long_stages(args, &gpu);
    stages.extend(short_stages(&gpu));
    let total: u64 = stages.iter().map(|s| s.minutes).sum();
    println!("{} stages, {total} minutes budgeted on two cores", stages.len());
    let mut took = Vec::new();
    for stage in &stages {
        println!("==> {} (budget {} min): {}", stage.name, stage.minutes, stage.command.join(" "));
        let start = Instant::now();
        execute(stage)?;
        took.push((stage, start.elapsed()));
        if took.len() + 1 == stages.len() {
            report(&took);
        }
    }
    Ok(())
}

/// The environment in which tests find the GPU tools, and fail without them.
fn gpu_environment() -> Result<Vec<(&'static str, String)>> {
    let found = |tool: &Tool| println!("{} {} ({})", tool.name, tool.version, tool.path.display());
    let mut variables = match std::env::var_os("VK_DRIVER_FILES") {
        // The user has chosen a driver, and the tests inherit the variable.
        Some(_) => Vec::new(),
        None => {
            let driver = ensure_lavapipe().context("a driver for GPU tests")?;
            found(&driver);
            environment(&driver)?
        }
    };
    let assembler = ensure_cuda_tools().context("an assembler for GPU tests")?;
    found(&assembler);
    variables.extend(cuda_environment(&assembler));
    found(&ensure_chromium().context("a browser for GPU tests")?);
    found(&ensure_mpi().context("a library for tests of several processes")?);
    variables.push(("REQUIRE_GPU_TOOLS", "1".into()));
    Ok(variables)
}

/// Installs the subcommand that the fuzz stages call, if it is missing.
fn ensure_fuzzer() -> Result<()> {
    let cargo = |args: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(args).env_remove("RUSTUP_TOOLCHAIN");
        command
    };
    let present = cargo(&["fuzz", "--version"]).output().context("asking for cargo-fuzz")?;
    if present.status.success() {
        return Ok(());
    }
    println!("installing cargo-fuzz");
    let status = cargo(&["install", "cargo-fuzz", "--locked", "--quiet"]).status()?;
    if status.success() { Ok(()) } else { bail!("installing cargo-fuzz ended with {status}") }
}

/// The example of a codegen in a workspace of its own.
const CODEGEN_C: &str = "examples/codegen-c";

/// The stages of the gate, for every change.
fn short_stages(gpu: &[(&'static str, String)]) -> Vec<Stage> {
    vec![
        Stage::new("format", 1, "cargo fmt --all --check"),
        Stage::new(
            "format of codegen-c",
            1,
            "cargo fmt --all --check --manifest-path examples/codegen-c/Cargo.toml",
        ),
        // The peers in Rust are included, so that they keep building. The peer candle-core is not: it alone
        // would take more than a minute.
        Stage::new(
            "lints",
            5,
            "cargo clippy --workspace --all-targets --features benches/gemm,benches/matrixmultiply,benches/ndarray,benches/wgpu,benches/cublas,arrayjit-collectives/mpi,arrayjit-collectives/cuda,models/mpi --quiet -- -D warnings",
        ),
        // The workspace builds `tnode` with its feature `files`, but users of a single compiler crate build
        // it without that feature.
        Stage::new("features", 1, "cargo clippy -p tnode --no-default-features --quiet -- -D warnings"),
        outside(
            CODEGEN_C,
            Stage::new("lints of codegen-c", 3, "cargo clippy --all-targets --quiet -- -D warnings"),
        ),
        Stage::new("docs", 2, "cargo doc --workspace --no-deps --quiet")
            .env([("RUSTDOCFLAGS", "-D warnings".into())]),
        Stage::new("main job", 4, "cargo run --quiet --release -p digits"),
        Stage::new("packages", 1, "cargo xtask package"),
        Stage::new("bench smoke", 3, "cargo xtask bench --smoke"),
        Stage::new("model checker", 2, "cargo test --quiet -p scheduler-multicore --features loom --lib"),
        outside(CODEGEN_C, Stage::new("codegen-c", 4, "cargo test --quiet")),
        // It takes seconds after the stage before it, which has built the kit for another workspace.
        Stage::new("new codegen", 3, "cargo test --quiet -p xtask --test new_codegen -- --ignored"),
        // The whole workspace is selected, so that its crates have the features of the stage after it and are
        // not built twice.
        Stage::new(
            "stand-in for NVIDIA's libraries",
            3,
            "cargo build --quiet --workspace --features arrayjit-collectives/mpi,arrayjit-collectives/cuda,models/mpi --example fake_cuda",
        ),
        Stage::new(
            "ranks",
            3,
            "cargo test --quiet --workspace --features arrayjit-collectives/mpi,arrayjit-collectives/cuda,models/mpi --test mpi --test nccl_group",
        )
        .env(gpu.iter().cloned()),
        // Property tests use a fixed seed, so that a failure is due to the change at hand; the long checks
        // use new seeds.
        Stage::new("tests", 12, "cargo test --workspace")
            .env(gpu.iter().cloned())
            .env([("PROPTEST_RNG_SEED", "11".into())]),
    ]
}

/// A stage for the crate in `folder`, which is another workspace. It shares the folder of builds with this
/// one.
fn outside(folder: &str, mut stage: Stage) -> Stage {
    let manifest = ["--manifest-path".to_owned(), format!("{folder}/Cargo.toml")];
    stage.command.splice(2..2, manifest);
    stage.env([("CARGO_TARGET_DIR", xtask::root().join("target").display().to_string())])
}

/// Stages that take too long for every change.
fn long_stages(args: &CiArgs, gpu: &[(&'static str, String)]) -> Vec<Stage> {
    if !args.full {
        return Vec::new();
    }
    let seconds = args.fuzz_seconds;
    let minutes = u64::from(seconds).div_ceil(60) + 5;
    let texts = ["parse", "assignments", "verified", "optimised", "compiled", "differential"];
    let targets =
        texts.map(|target| (target, "fuzz/seeds")).into_iter().chain([("onnx_model", "fuzz/onnx-seeds")]);
    let fuzz = targets.map(|(target, seeds)| {
        let command = format!(
            "cargo +nightly fuzz run {target} fuzz/corpus/{target} {seeds} -- -max_total_time={seconds} -timeout=20"
        );
        Stage::new("fuzz", minutes, &command)
    });
    // Two tests are about time: one needs a fast kernel, and no kernel is fast under the sanitizer; the other
    // measures the processor time of idle threads. A third test limits the address space, of which the
    // sanitizer reserves terabytes.
    let sanitizer = "cargo +nightly test -p scheduler-multicore -p device-runtime --lib --tests --target x86_64-unknown-linux-gnu -- --skip a_kernel_known_to_be_quick --skip idle_workers_use_no_processor --skip running_out_of_memory_is_an_error";
    let mut stages: Vec<Stage> = fuzz.collect();
    let accuracy = "cargo test --release -p lowered-ir --test accuracy -- --nocapture";
    stages.push(Stage::new("accuracy", 10, accuracy).env([("ACCURACY", "full".into())]));
    let properties = "cargo test --release -p filetests -p lowered-ir -p assignments -p vector-asm -p microkernels -p tnode";
    stages.push(Stage::new("property tests", 10, properties).env([("PROPTEST_CASES", "4000".into())]));
    let routines =
        "cargo test --release -p arrayjit --features wgpu --test wgpu -- random_routines --nocapture";
    let seeds = ("GPU_SEEDS", "1000".to_owned());
    let rows = "cargo test --release -p codegen-ptx --test it -- row_programs tile_programs";
    stages.push(Stage::new("programs as PTX", 20, rows).env([seeds.clone()]));
    stages.push(Stage::new("routines on the GPU", 10, routines).env(gpu.iter().cloned().chain([seeds])));
    // The accuracies and losses that the examples state; the tests of every change train for fewer steps.
    let models = "cargo test --release -p models --test models -- --ignored --nocapture";
    stages.push(Stage::new("trained models", 10, models));
    let programs = "cargo test --release -p arrayjit --test many_programs -- --nocapture";
    stages.push(Stage::new("many programs", 10, programs).env([("PROGRAMS", "100000".into())]));
    let growth = "cargo test --release -p arrayjit --test compile_time -- --nocapture";
    stages.push(Stage::new("compile time", 5, growth).env([("COMPILE_TIME", "full".into())]));
    // Only a nightly rustdoc compares the error codes of listings that must not compile.
    let codes = "cargo +nightly test --doc -p arrayjit -p device-runtime -p lowered-ir -- compile_fail";
    stages.push(Stage::new("listings that fail to compile", 10, codes));
    stages.push(Stage::new("packages", 10, "cargo xtask package --verify"));
    let backend = Stage::new("backend c", 5, "cargo test --quiet");
    stages.push(outside("examples/codegen-c/backend", backend));
    let archive = "cargo xtask gpu-archive --check";
    stages.push(Stage::new("archive for a GPU", 15, archive));
    stages.push(
        Stage::new("address sanitizer", 10, sanitizer).env([("RUSTFLAGS", "-Zsanitizer=address".into())]),
    );
    stages
}

fn execute(stage: &Stage) -> Result<()> {
    // A fuzzer does not create the folder for its findings.
    for folder in stage.command.iter().filter(|word| word.starts_with("fuzz/corpus/")) {
        std::fs::create_dir_all(xtask::root().join(folder))?;
    }
    let (program, args) = stage.command.split_first().context("a stage without a command")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(xtask::root()).envs(stage.env.iter().cloned());
    // Cargo sets these variables for xtask; a nested cargo with another toolchain must not inherit them.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    let status = command.status().with_context(|| format!("starting `{}`", stage.command.join(" ")))?;
    if !status.success() {
        bail!("stage `{}` failed: `{}` ended with {status}", stage.name, stage.command.join(" "));
    }
    Ok(())
}

fn report(took: &[(&Stage, Duration)]) {
    println!("{:<20} {:>8} {:>8}", "stage", "budget", "took");
    for (stage, time) in took {
        let over = if time.as_secs() > stage.minutes * 60 { "  over budget" } else { "" };
        println!("{:<20} {:>5} min {:>5.1} min{over}", stage.name, stage.minutes, time.as_secs_f64() / 60.0);
    }
}
