//! Tools that packages of the distribution bring: a browser with WebGPU, and an MPI library.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Tool, apt, on_path};

/// The names of the browser in distributions and by its maker.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Debian's packages of MPI: headers, launcher, and the parser of headers.
const MPI: [&str; 3] = ["libopenmpi-dev", "openmpi-bin", "libclang-dev"];

/// Chromium on this machine: the program named by `CHROMIUM` in the environment, or the first of its usual
/// names on the search path.
pub fn find_chromium() -> Option<Tool> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = named.or_else(|| BROWSERS.iter().find_map(|name| on_path(name)))?;
    Tool::asked("Chromium", path)
}

/// Chromium, installed by the package manager if it is missing.
///
/// # Errors
///
/// Machines without Debian's packages, unreachable archives, and users who may not install.
pub fn ensure_chromium() -> Result<Tool> {
    ensure(find_chromium, &["chromium"])
}

/// The MPI launcher of this machine, if the compiler of MPI programs is there too.
pub fn find_mpi() -> Option<Tool> {
    on_path("mpicc")?;
    Tool::asked("MPI", on_path("mpirun")?)
}

/// An MPI library, installed by the package manager if it is missing.
///
/// # Errors
///
/// Machines without Debian's packages, unreachable archives, and users who may not install.
pub fn ensure_mpi() -> Result<Tool> {
    ensure(find_mpi, &MPI)
}

fn ensure(find: fn() -> Option<Tool>, packages: &[&str]) -> Result<Tool> {
    if let Some(tool) = find() {
        return Ok(tool);
    }
    apt::release()?;
    apt::install(&packages.iter().map(|&package| package.to_owned()).collect::<Vec<_>>())?;
    find().with_context(|| {
        format!("{} is installed, and no program of it says its version", packages.join(", "))
    })
}
