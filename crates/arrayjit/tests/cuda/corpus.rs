//! Runs the whole corpus on the GPU, as written and optimized: all results are within their bounds, and the
//! test counts the results that equal the interpreter's bits.

use codegen_testkit::{Agreement, run_corpus_on};

use crate::gpu;

#[test]
fn the_corpus_on_the_gpu() {
    let Some(gpu) = gpu("the_corpus_on_the_gpu") else { return };
    let report = run_corpus_on(gpu.codegen(), &gpu.device, Agreement::Bounds);
    println!("{report}");
    assert!(report.conforms(), "{report}");
    let (skipped, all) = (report.skipped().count(), report.outcomes.len());
    assert!(skipped * 40 < all, "{skipped} of {all} runs are skipped\n{report}");
}

/// Except for sums on tensor cores, the instructions of every operation have results that the PTX
/// specification fixes in every bit.
#[test]
fn the_corpus_in_every_bit() {
    let Some(gpu) = gpu("the_corpus_in_every_bit") else { return };
    let report = run_corpus_on(gpu.codegen(), &gpu.device, Agreement::Bits);
    println!("{report}");
    let (failed, all) = (report.failed().count(), report.outcomes.len());
    assert!(failed * 20 < all, "{failed} of {all} runs differ in some bit\n{report}");
}
