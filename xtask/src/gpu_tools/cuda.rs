//! NVIDIA's assembler and disassembler, which need no GPU.
//!
//! They come as Python packages of the CUDA toolkit, of which the programs alone are kept. Their licence lets
//! anybody install them and nobody hand them on, so they are fetched where they are used. The version pinned
//! is that of a driver which accepts everything that it does; it has forgotten compute capability 7.0, for
//! which an older one is there.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::Tool;

/// A program, the package that has it, and where in the package.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("ptxas", "nvidia-cuda-nvcc==13.0.88", "nvidia/cu13/bin/ptxas"),
    ("nvdisasm", "nvidia-cuda-nvdisasm==13.2.51", "nvidia/cu13/bin/nvdisasm"),
    ("ptxas-sm70", "nvidia-cuda-nvcc-cu12==12.9.86", "nvidia/cuda_nvcc/bin/ptxas"),
];

/// `ptxas`, beside which `nvdisasm` and an older `ptxas-sm70` lie, under `target/gpu-tools`, brought there if
/// they are not.
///
/// # Errors
///
/// Machines without Python's package installer, registries out of reach.
pub fn ensure_cuda_tools() -> Result<Tool> {
    let folder = super::folder().join("cuda");
    if let Some(tool) = present(&folder) {
        return Ok(tool);
    }
    for (program, package, path) in PROGRAMS {
        bring(&folder, program, package, path).with_context(|| format!("bringing {program} of {package}"))?;
    }
    std::fs::write(folder.join("version"), version())?;
    present(&folder).context("the programs that were just brought here are not there")
}

/// The programs, if they are here in the version pinned.
fn present(folder: &Path) -> Option<Tool> {
    // Written last, when everything is there.
    let version = std::fs::read_to_string(folder.join("version")).ok()?;
    let complete = PROGRAMS.iter().all(|(program, ..)| folder.join(program).is_file());
    let path = folder.join("ptxas");
    (complete && version == self::version()).then_some(Tool { name: "NVIDIA ptxas", version, path })
}

fn version() -> String {
    let versions: Vec<&str> =
        PROGRAMS.iter().filter_map(|(_, package, _)| package.split("==").nth(1)).collect();
    versions.join(", ")
}

fn bring(folder: &Path, program: &str, package: &str, path: &str) -> Result<()> {
    let unpacked: PathBuf = folder.join(format!("{program}-package"));
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"])
        .args([unpacked.as_os_str(), package.as_ref()])
        // It goes into a folder of its own, so it does not matter who installs it.
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .status()
        .context("starting python3")?;
    if !status.success() {
        bail!("pip ended with {status}");
    }
    let from = unpacked.join(path);
    std::fs::rename(&from, folder.join(program)).with_context(|| format!("moving {}", from.display()))?;
    std::fs::remove_dir_all(&unpacked).with_context(|| format!("removing {}", unpacked.display()))
}
