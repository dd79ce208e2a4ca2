//! Tools that tests need. For GPU code on a machine without a GPU: a software Vulkan driver, a browser,
//! NVIDIA's assembler. For programs of several processes: an MPI library.
//!
//! The driver is Mesa's lavapipe, taken from the distribution's own packages and unpacked under
//! `target/gpu-tools`, so that the machine's drivers are not changed. The package manager installs only the
//! libraries that this driver needs. Chromium and Open MPI are installed as whole packages. Tools that are
//! present are left alone, so a second call costs milliseconds.

pub(crate) mod apt;
mod cuda;
mod lavapipe;
mod packaged;
mod vulkan_loader;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

pub use cuda::ensure_cuda_tools;
pub use lavapipe::ensure_lavapipe;
pub use packaged::{ensure_chromium, ensure_mpi, find_chromium, find_mpi};
pub use vulkan_loader::unpack_vulkan_loader;

/// An installed tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The name of the tool.
    pub name: &'static str,
    /// The version, in its maker's notation.
    pub version: String,
    /// The driver's manifest, or the program.
    pub path: PathBuf,
}

impl Tool {
    /// A program that says its version when it is asked.
    fn asked(name: &'static str, path: PathBuf) -> Option<Tool> {
        let said = apt::output(Command::new(&path).arg("--version")).ok()?;
        let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        Some(Tool { name, version: version.to_owned(), path })
    }
}

/// The folder of tools that are unpacked rather than installed.
pub fn folder() -> PathBuf {
    crate::root().join("target/gpu-tools")
}

/// The environment in which programs find NVIDIA's assembler.
pub fn cuda_environment(assembler: &Tool) -> Vec<(&'static str, String)> {
    let folder = assembler.path.parent().unwrap_or(&assembler.path);
    vec![("CUDA_TOOLS", folder.display().to_string())]
}

/// The environment in which programs find this driver and no other, and cache compiled code between runs.
///
/// # Errors
///
/// Folders that cannot be created.
pub fn environment(driver: &Tool) -> Result<Vec<(&'static str, String)>> {
    let cache = folder().join("shader-cache");
    std::fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
    let mut variables = vec![
        ("VK_DRIVER_FILES", driver.path.display().to_string()),
        ("MESA_SHADER_CACHE_DIR", cache.display().to_string()),
    ];
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        variables.push(("XDG_RUNTIME_DIR", runtime_folder()?.display().to_string()));
    }
    Ok(variables)
}

/// A folder that only this user may read; the window-system libraries that the driver loads require it.
fn runtime_folder() -> Result<PathBuf> {
    let folder = folder().join("runtime");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(folder)
}

/// The program of that name on the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
