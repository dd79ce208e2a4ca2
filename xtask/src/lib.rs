//! The parts of `cargo xtask` that tests use too.

pub mod arm64_root;
pub mod assign;
pub mod gpu_tools;
pub mod new_codegen;
pub mod packages;
pub mod tidy;

use std::path::PathBuf;

/// The root folder of the repository that this program was built in.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}
