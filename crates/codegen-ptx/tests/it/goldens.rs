//! The PTX of the corpus for compute capability 8.0, as golden files beside it.

use codegen_ptx::{PtxOptions, Target, ptx};
use filetests::assert_listings;

#[test]
fn the_corpus_as_ptx() {
    let codegen = ptx(Target::Sm80, PtxOptions::default());
    assert_listings(&codegen, "ptx", "//");
}
