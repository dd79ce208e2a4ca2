//! Project tasks, run as `cargo xtask NAME`. Each task is a module with a struct of arguments and a function
//! `run`.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{assign, new_codegen};

mod arm64;
mod arm64_count;
mod arm64_model;
mod bench;
mod bless;
mod ci;
mod conformance;
mod export_web;
mod gpu;
mod gpu_archive;
mod gradient_goldens;
mod lir;
mod onnx_models;
mod onnx_suite;
mod peers_venv;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks of arrayjit")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check layers, module docs, words, and the paths that documents name.
    Tidy,
    /// Check and time the benchmark cases.
    Bench(bench::BenchArgs),
    /// Write a page that runs kernels on a browser's WebGPU.
    ExportWeb(export_web::ExportWebArgs),
    /// Run the stages of continuous integration; `--full` adds the long checks.
    Ci(ci::CiArgs),
    /// Run cargo for ARM64, with QEMU: `cargo xtask arm64 -- test -p microkernels`. The first run makes a
    /// system with a compiler in `target/arm64-root` (or `ARM64_ROOT`), which needs root and Debian's
    /// packages.
    Arm64(arm64::Arm64Args),
    /// Model the inner loop of a function of an ARM64 program on three processors, with `llvm-mca`.
    Arm64Model(arm64_model::Arm64ModelArgs),
    /// Install the tools of GPU tests under `target/gpu-tools`: a software Vulkan driver, NVIDIA's assembler,
    /// and Chromium on request.
    GpuTools(gpu::GpuToolsArgs),
    /// Pack the tests that need an NVIDIA GPU and the benchmarks, for a machine with such a GPU and without
    /// Rust.
    GpuArchive(gpu_archive::GpuArchiveArgs),
    /// Write the gradients that jax computes for random programs, with which tests compare.
    GradientGoldens(gradient_goldens::GradientGoldensArgs),
    /// Write the archive of the node tests of the Python package `onnx`, which tests run.
    OnnxSuite,
    /// Run ONNX models of Python packages, compare them with onnxruntime, and time both in turns.
    OnnxModels(onnx_models::OnnxModelsArgs),
    /// Pack every published crate as a registry would get it.
    Package {
        /// Also build each crate from its package alone.
        #[arg(long)]
        verify: bool,
    },
    /// Rewrite the expected texts of tests.
    Bless(bless::BlessArgs),
    /// Run the conformance kit in the tests of a crate anywhere, and say which level it has.
    Conformance(conformance::ConformanceArgs),
    /// Write a crate with a code generator outside of this workspace.
    NewCodegen(new_codegen::NewCodegenArgs),
    /// Look at a program in assignment text: print its statements, or what its names are.
    Assign(assign::AssignArgs),
    /// Look at a `.lir` file: print, verify, transform or run its routines.
    Lir(lir::LirArgs),
}

fn main() -> ExitCode {
    sigpipe::reset();
    let result = match Cli::parse().task {
        Task::Tidy => xtask::tidy::run(),
        Task::Arm64Model(args) => arm64_model::run(&args),
        Task::Arm64(args) => arm64::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::OnnxSuite => onnx_suite::run(),
        Task::OnnxModels(args) => onnx_models::run(&args),
        Task::ExportWeb(args) => export_web::run(&args),
        Task::GpuTools(args) => gpu::run(&args),
        Task::GpuArchive(args) => gpu_archive::run(&args),
        Task::GradientGoldens(args) => gradient_goldens::run(&args),
        Task::Package { verify } => xtask::packages::package(verify),
        Task::Bless(args) => bless::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::NewCodegen(args) => new_codegen::run(&args),
        Task::Assign(args) => assign::run(&args),
        Task::Lir(args) => lir::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
