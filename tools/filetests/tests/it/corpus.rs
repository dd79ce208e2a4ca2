//! Runs every test of every file of the corpus. `BLESS=1` rewrites the sections that differ.

use filetests::{Mode, TestFailure, check, corpus, run_cases};

#[test]
fn every_file_of_the_corpus_passes() {
    let files: Vec<_> = corpus().collect();
    assert!(files.len() > 20, "found {} files only; is the corpus where it should be?", files.len());
    let failures: Vec<TestFailure> = files.iter().flat_map(|file| check(file, Mode::from_env())).collect();
    let messages: Vec<String> = failures.iter().map(TestFailure::to_string).collect();
    assert!(messages.is_empty(), "{} tests failed\n\n{}", messages.len(), messages.join("\n\n"));
}

#[test]
fn code_generators_get_every_run() {
    let cases: Vec<_> = run_cases().collect();
    assert!(cases.len() >= 25, "found {} runs only", cases.len());
    for case in cases {
        assert_eq!(case.inputs.len(), case.routine.nodes.len());
        assert_eq!(case.bindings.len(), case.routine.symbols.len());
    }
}
