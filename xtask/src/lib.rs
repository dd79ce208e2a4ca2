//! The parts of `cargo xtask` that tests use too.

pub mod gpu_tools;
pub mod tidy;

use std::path::PathBuf;

/// The repository's root folder.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}
