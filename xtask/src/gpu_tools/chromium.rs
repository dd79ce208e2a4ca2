//! A browser with WebGPU.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Tool, apt, on_path};

/// The program's names in distributions and by its maker.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Chromium on this machine: the program named by `CHROMIUM` in the environment, or the first of its usual
/// names on the search path.
pub fn find_chromium() -> Option<Tool> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = named.or_else(|| NAMES.iter().find_map(|name| on_path(name)))?;
    Tool::asked("Chromium", path)
}

/// Chromium, installed by the package manager if it is missing.
///
/// # Errors
///
/// Machines without Debian's packages, unreachable archives, and users who may not install.
pub fn ensure_chromium() -> Result<Tool> {
    if let Some(tool) = find_chromium() {
        return Ok(tool);
    }
    apt::release()?;
    apt::install(&["chromium".to_owned()])?;
    find_chromium().context("the package chromium is installed, and no Chromium says its version")
}
