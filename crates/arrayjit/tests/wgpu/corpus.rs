//! Runs the whole corpus, as written and optimized: integers bit for bit, floats within their bounds.

use codegen_testkit::{Agreement, run_corpus_on};

use crate::gpu;

/// The expected reasons for skips, each with its largest number of runs. A new reason, or more runs, fails
/// the test.
const SKIPS: &[(&str, usize)] = &[
    // Angles of `f64` beyond 2⁴⁰ need a range reduction that only native code calls.
    ("`sin` on f64", 4),
];

#[test]
fn the_corpus_on_the_adapter() {
    let Some(gpu) = gpu("the_corpus_on_the_adapter") else { return };
    let report = run_corpus_on(gpu.codegen(), &gpu.device, Agreement::Bounds);
    println!("{report}");
    assert!(report.conforms(), "{report}");
    let unexpected = report.unexpected_skips(SKIPS);
    assert!(unexpected.is_empty(), "unexpected skips: {unexpected:#?}");
    // Enough elements are compared. The only results without a bound are a product of a computed 0 with
    // infinity, differences of infinities, and a few conversions and quotients at a discontinuity. Each may
    // be counted four times: in the routine as written and as optimized, compared with the interpreter's
    // value and with the expected value.
    let close = report.closeness;
    assert!(close.elements > 10_000 && close.open <= 30, "{close}");
}
