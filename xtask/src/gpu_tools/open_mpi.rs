//! An MPI library with its launcher, and the library that reads its headers.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Tool, apt, on_path};

/// Debian's packages: headers, launcher, and the parser of headers.
const PACKAGES: [&str; 3] = ["libopenmpi-dev", "openmpi-bin", "libclang-dev"];

/// The MPI launcher of this machine, if the compiler of MPI programs is there too.
pub fn find_mpi() -> Option<Tool> {
    on_path("mpicc")?;
    let path = on_path("mpirun")?;
    let said = apt::output(Command::new(&path).arg("--version")).ok()?;
    let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(Tool { name: "MPI", version: version.to_owned(), path })
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
