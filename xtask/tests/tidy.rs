//! The repository is tidy: layers, module docs, names in documents.

#[test]
fn the_repository_is_tidy() {
    let findings = xtask::tidy::findings().unwrap();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
