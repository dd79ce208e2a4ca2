//! Exported pages in a browser: files of the corpus, and the digits example.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{io::Write, path::PathBuf};

use web::{digits, lir, page::Page};

fn file(name: &str) -> PathBuf {
    filetests::corpus_dir().join(name)
}

fn export(name: &str) -> anyhow::Result<Page> {
    lir::page(&file(name), &crate::common::codegen())
}

#[test]
fn exported_files_pass() {
    let Some(browser) = crate::common::browser("exported_files_pass") else { return };
    for name in ["matmul", "softmax", "symbol_slice", "merge", "bf16", "row_sums"] {
        let page = export(&format!("run/{name}.lir")).unwrap();
        let outcome = crate::common::run(&browser, &page);
        assert_eq!(outcome.status, "pass", "{name}: {:#?}", outcome.complaints());
        assert_eq!(outcome.runs.len(), page.contexts.iter().map(|c| c.runs.len()).sum::<usize>(), "{name}");
        assert!(outcome.runs.iter().all(|run| !run.checks.is_empty()), "{name}");
    }
}

/// The expected contents of one node are replaced by wrong ones. Only a comparison with the contents that the
/// kernels computed detects that.
#[test]
fn a_page_with_a_wrong_expectation_fails() {
    let Some(browser) = crate::common::browser("a_page_with_a_wrong_expectation_fails") else { return };
    let mut page = export("run/matmul.lir").unwrap();
    let wrong = page.data.add(&[0x40; 4 * 8]);
    page.contexts[0].runs[1].after.last_mut().unwrap().data = wrong;
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.status, "fail");
    assert_eq!(outcome.runs.iter().map(|run| run.status.as_str()).collect::<Vec<_>>(), ["pass", "fail"]);
    assert_eq!(outcome.complaints(), ["@matmul, line 18: c: 8 of 8 elements wrong"]);
}

#[test]
fn the_digits_pass_and_are_told_apart() {
    let Some(browser) = crate::common::browser("the_digits_pass_and_are_told_apart") else { return };
    let options = digits::Options { epochs: 12, seed: 5 };
    let page = digits::page(&options, &crate::common::codegen()).unwrap();
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.status, "pass", "{:#?}", outcome.complaints());
    let scores: Vec<(f64, f64)> = outcome
        .runs
        .iter()
        .filter_map(|run| run.score.as_ref())
        .map(|score| (score.value, score.of))
        .collect();
    assert!(matches!(scores[..], [(trained, 359.0), (_, 359.0)] if trained > 0.95 * 359.0), "{scores:?}");
}

#[test]
fn a_file_with_nothing_to_run_says_what_it_has() {
    let mut file = tempfile::NamedTempFile::with_suffix(".lir").unwrap();
    writeln!(file, "test verify\ntest schedule vector=16\n\nroutine @r {{\n}}").unwrap();
    let error = lir::page(file.path(), &crate::common::codegen()).unwrap_err().to_string();
    assert!(error.contains("no `; run:` line") && error.ends_with("verify, schedule"), "{error}");
}

#[test]
fn what_browsers_lack_is_rejected_with_the_reason() {
    let error = format!("{:#}", export("run/transcendental_f64.lir").unwrap_err());
    assert!(error.contains("transcendental_f64.lir") && error.contains("f64"), "{error}");
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let error = format!("{:#}", lir::page(&file("no/such.lir"), &crate::common::codegen()).unwrap_err());
    assert!(error.contains("no/such.lir"), "{error}");
}
