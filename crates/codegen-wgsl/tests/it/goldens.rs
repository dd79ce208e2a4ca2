//! The WGSL of the corpus, as golden files beside it.

use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
use filetests::assert_listings;

#[test]
fn the_corpus_as_wgsl() {
    let codegen = wgsl(baseline_caps(), WgslOptions::default());
    assert_listings(&codegen, "wgsl", "//");
}
