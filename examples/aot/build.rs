//! Links the object file of the library that `arrayjit-aot` wrote, and names its Rust module.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=MODEL_FOLDER");
    let folder = PathBuf::from(env::var_os("MODEL_FOLDER").unwrap_or_else(|| "model".into()));
    let folder = folder.canonicalize().unwrap_or(folder);
    let object = folder.join("model.o");
    println!("cargo::rerun-if-changed={}", object.display());
    println!("cargo::rustc-link-arg={}", object.display());
    println!("cargo::rustc-env=MODEL_MODULE={}", folder.join("model.rs").display());
}
