//! The PTX of the corpus for compute capability 8.0, as golden files beside it.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use codegen_ptx::{PtxOptions, Target, ptx};
use filetests::{Mode, check_listings};

#[test]
fn the_corpus_as_ptx() {
    let codegen = ptx(Target::Sm80, PtxOptions::default());
    let failures = check_listings(&codegen, "ptx", "//", Mode::from_env());
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
