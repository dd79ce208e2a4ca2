//! The stages of continuous integration, for any machine: a table of commands with budgets in processor
//! minutes.
//!
//! The budgets are for a clean clone. A stage over its budget is reported but does not fail, because machines
//! differ in speed; the gate fails if all stages together take more than [`LIMIT`]. Processor minutes count,
//! because other work on a machine changes the time on the clock. The tests are last, so that the output ends
//! with the test runner's closing lines. The tools that tests of GPU code and of several processes need are
//! installed before anything is compiled; unlike on a developer's machine, a missing tool is an error here.
//!
//! The lints, the documentation and the tests are of one set of features, so that each crate is compiled once
//! for each of them.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use xtask::gpu_tools::{
    Tool, cuda_environment, ensure_chromium, ensure_cuda_tools, ensure_lavapipe, ensure_mpi, environment,
};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct CiArgs {
    /// Add the long checks: fuzzing and the address sanitizer (both need a nightly toolchain); random tests
    /// with new seeds, accuracy over long sweeps, 100,000 programs in bounded memory, 10,000 over sizes of a
    /// run; the model checker and builds with other features; crates outside of the workspace, whole
    /// packages, the archive for machines with an NVIDIA GPU, real ONNX models; the suites for ARM64 under
    /// QEMU; models trained to their stated accuracy, the growth of compile time, and every benchmark case.
    #[arg(long)]
    full: bool,
    /// Seconds each fuzz target runs under `--full`.
    #[arg(long, default_value_t = 600)]
    fuzz_seconds: u32,
}

/// Most processor minutes of all stages of the gate, about twice the usual sum.
const LIMIT: f64 = 90.0;

/// One command of the gate.
struct Stage {
    name: &'static str,
    /// The budget in processor minutes.
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

/// The time that a stage used.
#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    processor: Duration,
}

/// Runs every stage in order, and stops at the first failure.
pub(crate) fn run(args: &CiArgs) -> Result<()> {
    let gpu = gpu_environment()?;
    if args.full {
        ensure_fuzzer()?;
        ensure_corpora()?;
    }
    let mut stages = if args.full { long_stages(args, &gpu) } else { Vec::new() };
    stages.extend(short_stages(&gpu));
    let total: u64 = stages.iter().map(|stage| stage.minutes).sum();
    println!("{} stages, {total} processor minutes budgeted", stages.len());
    let mut costs: Vec<Cost> = Vec::new();
    for stage in &stages {
        if costs.len() + 1 == stages.len() {
            report(&stages, &costs);
        }
        println!("==> {} (budget {} min): {}", stage.name, stage.minutes, stage.command.join(" "));
        let (start, before) = (Instant::now(), processor_time()?);
        execute(stage)?;
        costs.push(Cost { wall: start.elapsed(), processor: processor_time()? - before });
    }
    // To standard error, so that the test runner's lines are the last of standard output.
    let [wall, processor] = [|cost: &Cost| cost.wall, |cost: &Cost| cost.processor]
        .map(|part| costs.iter().map(part).sum::<Duration>().as_secs_f64() / 60.0);
    let last = costs.last().map_or(0.0, |cost| cost.processor.as_secs_f64() / 60.0);
    eprintln!(
        "the last stage took {last:.1} processor min; all together {wall:.1} min, {processor:.1} processor min"
    );
    if !args.full && processor > LIMIT {
        bail!(
            "the gate took {processor:.1} processor minutes, at most {LIMIT} are allowed: make a stage cheaper"
        );
    }
    Ok(())
}

/// Processor time of all descendants of this process that have ended.
fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the processor time of stages")?;
    let micros = [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds().unsigned_abs());
    Ok(Duration::from_micros(micros.iter().sum()))
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

/// The targets of fuzzing, with the folders of their seeds.
const FUZZ_TARGETS: [(&str, &str); 8] = [
    ("parse", "fuzz/seeds"),
    ("assignments", "fuzz/seeds"),
    ("verified", "fuzz/seeds"),
    ("optimized", "fuzz/seeds"),
    ("compiled", "fuzz/seeds"),
    ("differential", "fuzz/seeds"),
    ("onnx_model", "fuzz/onnx-seeds"),
    ("model_files", "fuzz/model-seeds"),
];

/// Makes the folders of the corpora, which a fresh clone lacks and `cargo fuzz` does not make.
fn ensure_corpora() -> Result<()> {
    FUZZ_TARGETS.iter().try_for_each(|(target, _)| {
        let folder = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(&folder).with_context(|| format!("making {folder}"))
    })
}

/// The example of a codegen in a workspace of its own.
const CODEGEN_C: &str = "examples/codegen-c";

/// The features of the lints, the documentation and the tests, beside the default ones: ranks over MPI and
/// NCCL.
const FEATURES: &str = "arrayjit-collectives/mpi,arrayjit-collectives/cuda,models/mpi";

/// A benchmark case of each family, which the gate checks; `--full` checks all.
const BENCH_CASES: &str = "matmul_256,conv3x3,conv_filter_gradient,gelu_16k,rowsum,softmax_1024,causal_attention_8x,digits_step,lenet_train,resnet8,gpt_decode,lstm_train,heat_1024,compile_20op,dispatch_empty";

/// Checks the format of a folder that is a workspace of its own.
fn format_outside(name: &'static str, folder: &str) -> Stage {
    Stage::new(name, 1, &format!("cargo fmt --all --check --manifest-path {folder}/Cargo.toml"))
}

/// The stages of the gate, for every change.
fn short_stages(gpu: &[(&'static str, String)]) -> Vec<Stage> {
    vec![
        Stage::new("format", 1, "cargo fmt --all --check"),
        format_outside("format of codegen-c", CODEGEN_C),
        format_outside("format of aot", "examples/aot"),
        format_outside("format of aot-firmware", "examples/aot-firmware"),
        Stage::new(
            "lints",
            10,
            &format!("cargo clippy --workspace --all-targets --features {FEATURES} --quiet -- -D warnings"),
        ),
        Stage::new("docs", 3, &format!("cargo doc --workspace --no-deps --features {FEATURES} --quiet"))
            .env([("RUSTDOCFLAGS", "-D warnings".into())]),
        Stage::new("packages", 1, "cargo xtask package"),
        // The main job and the benchmarks are built as one, so that what they share is compiled once.
        Stage::new("release build", 8, "cargo build --quiet --release -p digits -p benches"),
        Stage::new("main job", 1, "target/release/digits"),
        Stage::new("bench smoke", 2, &format!("target/release/benches --smoke --filter {BENCH_CASES}")),
        // Property tests use a fixed seed, so that a failure is due to the change at hand; the long checks
        // use new seeds.
        Stage::new("tests", 20, &format!("cargo test --workspace --features {FEATURES}"))
            .env(gpu.iter().cloned())
            .env([("PROPTEST_RNG_SEED", "11".into()), ("PROPTEST_CASES", "64".into())]),
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
    let mut stages = fuzz_stages(args.fuzz_seconds);
    stages.extend(random_stages(gpu));
    stages.extend(feature_stages());
    stages.extend(outside_stages());
    stages.push(arm64_stage());
    stages.extend(ahead_stages());
    stages.extend(macos_stages());
    stages.extend(release_stages());
    stages
}

/// Fuzzing, and the address sanitizer.
fn fuzz_stages(seconds: u32) -> Vec<Stage> {
    let minutes = u64::from(seconds).div_ceil(60) + 5;
    let fuzz = FUZZ_TARGETS.iter().map(|(target, seeds)| {
        let command = format!(
            "cargo +nightly fuzz run {target} fuzz/corpus/{target} {seeds} -- -max_total_time={seconds} -timeout=20"
        );
        Stage::new("fuzz", minutes, &command)
    });
    // Two tests are about time: one needs a fast kernel, and no kernel is fast under the sanitizer; the other
    // measures the processor time of idle threads. A third test limits the address space, of which the
    // sanitizer reserves terabytes.
    let sanitizer = "cargo +nightly test -p scheduler-multicore -p device-runtime --lib --tests --target x86_64-unknown-linux-gnu -- --skip a_kernel_itself_that_was_quick --skip idle_workers_use_no_processor --skip running_out_of_memory_is_an_error";
    let sanitizer = Stage::new("address sanitizer", 15, sanitizer);
    fuzz.chain([sanitizer.env([("RUSTFLAGS", "-Zsanitizer=address".into())])]).collect()
}

/// Random tests with new seeds, and many more of them.
fn random_stages(gpu: &[(&'static str, String)]) -> Vec<Stage> {
    let effort = |factor: &str| [("EFFORT", factor.to_owned())];
    let random = "cargo test --release -p filetests -p lowered-ir -p assignments -p assignment-text -p arrayjit-autodiff -p arrayjit-scheduling -p vector-asm -p microkernels -p tnode -p codegen-cranelift -p codegen-testkit -p codegen-wgsl -p codegen-ptx -p ptx-sim -p random-programs -p scheduler-multicore -p arrayjit -p arrayjit-collectives -p arrayjit-aot --lib --tests --features arrayjit/wgpu";
    let accuracy = "cargo test --release -p lowered-ir --test accuracy -- --nocapture";
    let programs = "cargo test --release -p arrayjit --test it -- many_programs --nocapture";
    // 2,000 products and convolutions of objects, beside the 4,000 programs among the random tests.
    let products = "cargo test --release -p arrayjit-aot --test it -- random_products --nocapture";
    // 10,000 programs over sizes of a run, with scans and gradients, and their forms for constants.
    let sizes = "cargo test --release -p arrayjit --test it -- random_sizes --nocapture";
    // The runtime's suite on disturbed drivers, the conformance kit for the other widths, the corpus's
    // kernels one by one in a browser.
    let ignored = "cargo test --release -p scheduler-multicore -p codegen-cranelift -p codegen-testkit -p web -p arrayjit-models --test it -- --ignored";
    vec![
        Stage::new("long tests", 30, ignored).env(gpu.iter().cloned()),
        Stage::new("kernels for GPUs before Hopper", 5, "cargo test --release -p benches --lib -- --ignored")
            .env(gpu.iter().cloned()),
        Stage::new("random tests", 60, random)
            .env(gpu.iter().cloned())
            .env([("PROPTEST_CASES", "4000".into())])
            .env(effort("20")),
        Stage::new("accuracy", 10, accuracy).env(effort("100")),
        Stage::new("many programs", 10, programs).env(effort("50")),
        Stage::new("many products of objects", 10, products).env(effort("50")),
        Stage::new("programs over sizes", 20, sizes).env(effort("250")),
    ]
}

/// Builds with other features than the workspace has together.
fn feature_stages() -> Vec<Stage> {
    // Two commands, because arrayjit turns on features of tnode.
    let off =
        |packages: &str| format!("cargo clippy {packages} --no-default-features --quiet -- -D warnings");
    let peers = "cargo clippy -p benches --all-targets --features gemm,matrixmultiply,ndarray,wgpu,cublas --quiet -- -D warnings";
    vec![
        Stage::new("model checker", 5, "cargo test --quiet -p scheduler-multicore --features loom --lib"),
        Stage::new("features of tnode and codegen-wgsl off", 3, &off("-p tnode -p codegen-wgsl")),
        Stage::new("backends off", 3, &off("-p arrayjit-onnx -p arrayjit-tensor -p arrayjit-collectives")),
        Stage::new(
            "features of arrayjit off",
            5,
            "cargo test --quiet -p arrayjit --no-default-features --tests",
        ),
        Stage::new("lints of peers", 5, peers),
    ]
}

/// Workspaces outside of this one, packages, and the archive for other machines.
fn outside_stages() -> Vec<Stage> {
    let lints = Stage::new("lints of codegen-c", 3, "cargo clippy --all-targets --quiet -- -D warnings");
    let archive = "cargo xtask gpu-archive --check";
    vec![
        outside(CODEGEN_C, lints),
        outside(CODEGEN_C, Stage::new("codegen-c", 6, "cargo test --quiet")),
        outside("examples/codegen-c/backend", Stage::new("backend c", 5, "cargo test --quiet")),
        // It takes seconds after the stages before it, which have built the kit for another workspace.
        Stage::new("new codegen", 3, "cargo test --quiet -p xtask --test new_codegen -- --ignored"),
        Stage::new("packages", 10, "cargo xtask package --verify"),
        Stage::new("archive for a GPU", 15, archive),
        Stage::new(
            "real ONNX models",
            10,
            "cargo xtask onnx-models --rounds 1 --filter classification,Magika,Silero --ahead --arm64",
        ),
    ]
}

/// Suites for ARM64 under QEMU. The gate does not even check types for ARM64: the standard library for it is
/// in the system that this stage makes, and making it and checking every dependency takes ten processor
/// minutes. There, the feature `cross` gives code for x86-64, whose files tests compare.
fn arm64_stage() -> Stage {
    let packages = ARM64_PACKAGES.map(|package| format!("-p {package}")).join(" ");
    let skipped = ARM64_SKIPPED.map(|test| format!("--skip {test}")).join(" ");
    let command = format!(
        "cargo xtask arm64 -- test --profile emulated {packages} --features arrayjit-aot/cross --lib --tests --no-fail-fast -- {skipped}"
    );
    Stage::new("ARM64 under QEMU", 110, &command)
        .env([("PROPTEST_CASES", "16".into()), ("CONFORMANCE_SECONDS", "600".into())])
}

/// The packages whose suites run under QEMU, each within minutes. The code of some depends on the processor;
/// the others compute, compile or parse for it.
const ARM64_PACKAGES: [&str; 24] = [
    "code-memory",
    "vector-asm",
    "microkernels",
    "codegen-cranelift",
    "scheduler-multicore",
    "arrayjit",
    "tnode",
    "lowered-ir",
    "codegen-core",
    "arrayjit-scheduling",
    "arrayjit-rt",
    "assignments",
    "assignment-text",
    "arrayjit-autodiff",
    "device-runtime",
    "ptx-asm",
    "codegen-ptx",
    "codegen-wgsl",
    "filetests",
    "arrayjit-collectives",
    "arrayjit-tensor",
    "arrayjit-onnx",
    "arrayjit-models",
    "arrayjit-aot",
];

/// Objects for ARM64, which this machine compiles: for a program under QEMU, with programs, 2,000 runs of
/// random programs and ONNX models, and for an emulated machine without a system. The conformance kit tests
/// the kernels of objects for this processor. Linkers make programs and libraries for other systems.
fn ahead_stages() -> [Stage; 5] {
    let kit = "cargo test -p arrayjit-aot --features cross --test it -- conforms_at --ignored";
    let cross = "cargo test -p arrayjit-aot --features cross --test it -- arm64:: --ignored --nocapture";
    let linked = "cargo test -p arrayjit-aot --features cross --test it -- linkers:: --ignored --nocapture";
    [
        Stage::new("core library without a system", 1, "rustup target add aarch64-unknown-none"),
        Stage::new("conformance of objects", 5, kit),
        Stage::new("objects for ARM64", 20, cross).env([("EFFORT", "10".to_owned())]),
        Stage::new("linkers of other systems", 2, LINKERS),
        Stage::new("objects for Windows and macOS", 2, linked),
    ]
}

/// Installs a C compiler for Windows, Wine and linkers on Debian.
const LINKERS: &str = "apt-get install --yes --quiet --no-install-recommends gcc-mingw-w64-x86-64 wine64 lld";

/// Type checks of the crates that name Apple's system. Those above them need its compiler for C.
fn macos_stages() -> [Stage; 2] {
    let check =
        "cargo check --target aarch64-apple-darwin -p code-memory -p vector-asm -p microkernels --lib";
    [
        Stage::new("standard library for macOS", 1, "rustup target add aarch64-apple-darwin"),
        Stage::new("types for macOS", 3, check),
    ]
}

/// Tests that are left out under QEMU. Its table of mappings does not join neighbors, it does not limit
/// addresses and takes no advice of huge pages. The memory that packed weights save is 5 % below its bound
/// there; whether QEMU's own memory is the cause has not been found out. The last four take minutes each, and
/// test parts that do not depend on the processor: the compiler, the parser, the interpreter, and bounds of
/// memory.
const ARM64_SKIPPED: [&str; 10] = [
    "ten_thousand_codes_are_some_forty_mappings",
    "code_is_freed_with_its_last_owner",
    "code_without_memory_is_an_error",
    "want_of_memory_for_a_stack_is_an_error",
    "pools_and_scratch_memory_lie_on_huge_pages",
    "weights_take_the_memory_that_they_take_in_the_file",
    "compile_time::",
    "hostile_texts",
    "interpreter_runs_the_corpus",
    "many_programs",
];

/// Stages that need optimized code or an idle machine.
fn release_stages() -> Vec<Stage> {
    // The accuracies and losses that the examples state; the tests of every change train for fewer steps.
    let models = "cargo test --release -p models --test models -- --ignored --nocapture";
    let growth = "cargo test --release -p arrayjit --test it -- compile_time --ignored --nocapture";
    // Only a nightly rustdoc compares the error codes of listings that must not compile.
    let codes = "cargo +nightly test --doc -p arrayjit -p device-runtime -p lowered-ir -- compile_fail";
    vec![
        Stage::new("trained models", 10, models),
        Stage::new("compile time", 5, growth),
        Stage::new("listings that fail to compile", 10, codes),
        Stage::new("bench smoke of all cases", 5, "cargo xtask bench --smoke"),
    ]
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

/// Prints the times of the stages, before the last one, whose output must be the last.
fn report(stages: &[Stage], costs: &[Cost]) {
    println!("{:<30} {:>7} {:>10} {:>8}", "stage", "budget", "processor", "wall");
    for (stage, cost) in stages.iter().zip(costs) {
        let [processor, wall] = [cost.processor, cost.wall].map(|time| time.as_secs_f64() / 60.0);
        let over = if processor > stage.minutes as f64 { "  over budget" } else { "" };
        println!("{:<30} {:>7} {processor:>10.1} {wall:>8.1}{over}", stage.name, stage.minutes);
    }
}
