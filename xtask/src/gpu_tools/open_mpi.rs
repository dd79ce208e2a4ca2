//! An MPI library with its launcher, and the library that reads its headers.

use anyhow::{Context, Result};

use super::{Tool, apt, on_path};

/// Debian's packages: headers, launcher, and the parser of headers.
const PACKAGES: [&str; 3] = ["libopenmpi-dev", "openmpi-bin", "libclang-dev"];

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
    if let Some(tool) = find_mpi() {
        return Ok(tool);
    }
    apt::release()?;
    apt::install(&PACKAGES.map(str::to_owned))?;
    find_mpi().context("the packages of Open MPI are installed, and no mpirun says its version")
}
