//! Runs the checks of `cargo xtask tidy` as a test.

#[test]
fn the_repository_is_tidy() {
    let findings = xtask::tidy::findings().unwrap();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
