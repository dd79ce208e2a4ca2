//! `cargo xtask new-codegen` makes a crate that builds and conforms as it is.

use std::process::Command;

/// Builds the conformance kit for the crate, which takes minutes if no build of `examples/codegen-c` left it
/// in the target folder. `cargo xtask ci --full` runs it after those tests.
#[test]
#[ignore = "builds the conformance kit; `cargo xtask ci --full` runs it"]
fn a_new_codegen_passes_its_tests() {
    let out = tempfile::tempdir().unwrap();
    let folder = xtask::new_codegen::create("my-codegen", out.path()).unwrap();
    for args in [&["fmt", "--check"][..], &["test", "--offline", "--quiet"]] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(args).current_dir(&folder).env_remove("CARGO");
        cargo.env("CARGO_TARGET_DIR", xtask::root().join("target"));
        let output = cargo.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}
