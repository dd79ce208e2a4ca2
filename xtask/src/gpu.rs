//! `cargo xtask gpu-tools`: installs a software Vulkan driver, NVIDIA's assembler, and Chromium on request,
//! and prints how to use them.

use anyhow::Result;
use xtask::gpu_tools::{cuda_environment, ensure_chromium, ensure_cuda_tools, ensure_lavapipe, environment};

/// Options of `cargo xtask gpu-tools`.
#[derive(clap::Args)]
pub(crate) struct GpuToolsArgs {
    /// Bring Chromium as well, for the tests of exported web pages.
    #[arg(long)]
    chromium: bool,
    /// Print nothing but the environment, a `NAME=value` on each line: `env $(cargo xtask gpu-tools --env)
    /// cargo test`.
    #[arg(long)]
    env: bool,
}

/// Installs the tools and prints their versions and paths.
pub(crate) fn run(args: &GpuToolsArgs) -> Result<()> {
    let driver = ensure_lavapipe()?;
    let assembler = ensure_cuda_tools()?;
    let browser = args.chromium.then(ensure_chromium).transpose()?;
    if !args.env {
        for tool in [Some(&driver), Some(&assembler), browser.as_ref()].into_iter().flatten() {
            println!("{} {} ({})", tool.name, tool.version, tool.path.display());
        }
        println!("Use it with this environment (`cargo xtask gpu-tools --env` prints only that):");
    }
    for (name, value) in environment(&driver)?.into_iter().chain(cuda_environment(&assembler)) {
        println!("{name}={value}");
    }
    Ok(())
}
