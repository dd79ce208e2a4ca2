//! The WGSL of the corpus, as golden files beside it.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
use filetests::{Mode, check_listings};

#[test]
fn the_corpus_as_wgsl() {
    let codegen = wgsl(baseline_caps(), WgslOptions::default());
    let failures = check_listings(&codegen, "wgsl", "//", Mode::from_env());
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
