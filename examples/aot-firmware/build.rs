//! Links the object file of the library that `arrayjit-aot` wrote, and names its Rust module and the images.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=MODEL_FOLDER");
    let folder = PathBuf::from(env::var_os("MODEL_FOLDER").unwrap_or_else(|| "model".into()));
    let folder = folder.canonicalize().unwrap_or(folder);
    for file in ["digits.o", "digits.rs", "images.bin"] {
        println!("cargo::rerun-if-changed={}", folder.join(file).display());
    }
    println!("cargo::rustc-link-arg={}", folder.join("digits.o").display());
    println!("cargo::rustc-env=MODEL_MODULE={}", folder.join("digits.rs").display());
    println!("cargo::rustc-env=IMAGES={}", folder.join("images.bin").display());
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=memory.x");
    println!("cargo::rustc-link-arg=-T{root}/memory.x");
}
